package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/kind"
)

// Names of files in the folder of a container of podman.
const (
	startedFile = "started"      // exists once the container runs
	stopFile    = "stop"         // exists once the attempt must end
	idFile      = "id"           // holds the id of the container
	envFile     = "env"          // holds the environment of the container
	storeFile   = "storage.conf" // holds the settings of its store
)

// inside is the script of the first process of the namespaces. Its arguments are the folder of the container
// and the options of podman run. It mounts file systems in memory for the state of podman, of its runtime and
// of their locks. Only these processes see them. On a machine with control groups of both versions, crun must
// see only those of version 2, so the script mounts these. It changes nothing in them. Once the container
// runs, the process only keeps the namespaces alive.
const inside = `
fail() { echo "skein: $*" >&2; exit 125; }
engine() { podman --runtime crun --cgroup-manager cgroupfs --events-backend none "$@"; }
folder=$1; shift
[ -z "$SKEIN_PIDS" ] || echo 0 > "$SKEIN_PIDS" || echo "skein: the number of processes of the container is not limited" >&2
unset SKEIN_PIDS
mount --make-rprivate / && mount -t proc -o nosuid,nodev,noexec proc /proc || fail "the namespaces of the container cannot be made"
for at in /run/crun /run/libpod /run/containers /run/netns /dev/shm; do
	mkdir -p $at && mount -t tmpfs -o mode=755,nosuid,nodev,noexec tmpfs $at || fail "no private $at can be mounted"
done
if [ ! -e /sys/fs/cgroup/cgroup.controllers ]; then
	umount -l /sys/fs/cgroup 2>/dev/null
	mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 /sys/fs/cgroup || fail "no cgroup2 can be mounted on /sys/fs/cgroup"
fi
[ ! -e "$folder/stop" ] || exit 143
engine run --detach "$@" || exit $?
: > "$folder/started"
while :; do sleep 86400; done
`

// configure writes the settings of the container's store.
func (c *container) configure() error {
	config := fmt.Sprintf("[storage]\ndriver = %q\ngraphroot = %q\nrunroot = \"/run/containers/storage\"\n[storage.options]\nadditionalimagestores = [%q]\n",
		c.image.driver, filepath.Join(c.folder, "root"), c.image.store)
	return os.WriteFile(filepath.Join(c.folder, storeFile), []byte(config), 0o600)
}

// options returns the options of podman run, and the names of the variables that podman takes from its own
// environment.
func (c *container) options() (args, inherit []string, err error) {
	argv, file, code, err := c.with.Run.command()
	if err != nil {
		return nil, nil, err
	}
	if file != "" {
		if err := os.WriteFile(filepath.Join(c.folder, ownFolder, file), []byte(code), 0o644); err != nil {
			return nil, nil, err
		}
	}
	lines, inherit, err := variables(c.variables())
	if err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(filepath.Join(c.folder, envFile), []byte(lines), 0o600); err != nil {
		return nil, nil, err
	}
	network, err := networkOption(c.with.Network)
	if err != nil {
		return nil, nil, err
	}
	args = []string{"--name", "c", "--cidfile", filepath.Join(c.folder, idFile), "--pull", "never", "--cgroups", "disabled", "--log-driver", "passthrough", "--sdnotify", "ignore",
		"--cap-drop", "all", "--security-opt", "no-new-privileges", "--http-proxy=false", "--no-healthcheck", "--network", network,
		"--env-file", filepath.Join(c.folder, envFile), "--workdir", workAt,
		"--mount", "type=bind,src=" + c.Dir + ",dst=" + workAt + ",relabel=private,U=true",
		"--mount", "type=bind,src=" + filepath.Join(c.folder, ownFolder) + ",dst=" + ownAt + ",relabel=private"}
	for _, kv := range inherit {
		name, _, _ := strings.Cut(kv, "=")
		args = append(args, "--env", name)
	}
	mounts, err := c.mountOptions()
	if err != nil {
		return nil, nil, err
	}
	args = append(args, mounts...)
	args = append(args, limitOptions()...)
	if at := initProgram(); at != "" {
		args = append(args, "--init", "--init-path", at)
	}
	if c.with.User != "" {
		args = append(args, "--user", c.with.User)
	}
	if argv != nil {
		args = append(args, "--entrypoint", "")
	}
	return append(append(args, "--", c.image.id), argv...), inherit, nil
}

// networkOption returns the option for a network. The processes of the network are in the namespaces of the
// container, so the network leaves no address or rule behind.
func networkOption(network string) (string, error) {
	if network == NetworkNone {
		return "none", nil
	}
	for _, program := range []string{"slirp4netns", "pasta"} {
		if _, err := exec.LookPath(program); err == nil {
			return program, nil
		}
	}
	return "", errors.New("a container with a network needs slirp4netns or pasta, and this machine has neither: install one of them, or set network: none")
}

// processesMax bounds the processes of a container.
const processesMax = 4096

// ulimit is a limit of each process of a container.
type ulimit struct {
	Name       string
	Soft, Hard uint64
}

// ulimits returns resource limits that this process may set. Podman's defaults are higher than a process
// without CAP_SYS_RESOURCE may set.
func ulimits() (all []ulimit) {
	const filesMost, filesUsual = 1 << 19, 1024
	for name, most := range map[string]uint64{"nofile": filesMost, "nproc": processesMax} {
		resource := map[string]int{"nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC}[name]
		var has unix.Rlimit
		if err := unix.Getrlimit(resource, &has); err != nil {
			continue
		}
		hard := min(has.Max, most)
		soft := hard
		if name == "nofile" {
			soft = min(hard, filesUsual)
		}
		all = append(all, ulimit{name, soft, hard})
	}
	return all
}

// limitOptions returns podman's options for ulimits.
func limitOptions() (args []string) {
	for _, u := range ulimits() {
		args = append(args, "--ulimit", fmt.Sprintf("%s=%d:%d", u.Name, u.Soft, u.Hard))
	}
	return args
}

// initProgram returns the path of a program that can be the first process of a container and forwards
// signals. Without such a program, a command without a handler for TERM ends only by KILL. initProgram
// returns "" if there is none.
func initProgram() string {
	for _, at := range []string{"/usr/libexec/podman/catatonit", "/usr/lib/podman/catatonit", "/usr/bin/catatonit", "/usr/bin/tini-static"} {
		if exists(at) {
			return at
		}
	}
	return ""
}

// run makes and starts the container, and waits for its end.
func (c *container) run(ctx context.Context) int {
	args, inherit, err := c.options()
	if err != nil {
		return c.fail(kind.Permanent, "%v", err)
	}
	pids, undo := limitProcesses(processesMax)
	defer undo()
	cmd := exec.Command("/bin/sh", append([]string{"-c", inside, "skein-container", c.folder}, args...)...)
	cmd.Dir = "/"
	cmd.Env = append(ownEnv(), inherit...)
	cmd.Env = append(cmd.Env, "CONTAINERS_STORAGE_CONF="+filepath.Join(c.folder, storeFile), "SKEIN_PIDS="+pids)
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return c.fail(kind.Failed, "the namespaces of the container cannot be made: %v", err)
	}
	code, err := c.follow(ctx, cmd.Process.Pid)
	_ = cmd.Process.Kill() // also ends everything in the namespaces
	end := cmd.Wait()
	_ = os.Lchown(c.Dir, os.Geteuid(), os.Getegid()) // the folder may belong to the container's user
	switch {
	case errors.Is(err, errEnded): // the script has written the reason to the log
		return codeOf(end)
	case err != nil:
		return c.fail(kind.Failed, "%v", err)
	case code != 0:
		return code
	}
	if err := c.take(); err != nil {
		return c.fail(kind.Failed, "the outputs of the container cannot be taken: %v", err)
	}
	return kind.Done
}
