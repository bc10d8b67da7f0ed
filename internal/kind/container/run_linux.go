package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/kind"
)

// Names of files in the folder of a container.
const (
	startedFile = "started"      // exists once the container runs
	stopFile    = "stop"         // exists once the attempt must end
	idFile      = "id"           // holds the id of the container
	envFile     = "env"          // holds the environment of the container
	storeFile   = "storage.conf" // holds the settings of its store
	ownFolder   = "own"          // folder that is mounted at ownAt
	outFile     = "output"       // file in ownFolder: $SKEIN_OUTPUT of the container
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

// furnish creates the files of the container in its folder.
func (c *container) furnish() error {
	own := filepath.Join(c.folder, ownFolder)
	if err := os.RemoveAll(c.folder); err != nil { // an earlier start of the same attempt may have left files
		return err
	}
	if err := os.MkdirAll(own, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(c.folder, 0o700); err != nil {
		return err
	}
	// Any user of the container may write the outputs. Other users of the machine cannot enter the folder
	// above.
	out := filepath.Join(own, outFile)
	if err := os.WriteFile(out, nil, 0o600); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(out, 0o666), os.Chmod(own, 0o755)); err != nil {
		return err
	}
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
	env := map[string]string{}
	for _, kv := range os.Environ() {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "SKEIN_") && !local[name] || name == "TRACEPARENT" {
			env[name] = value
		}
	}
	for name, value := range c.with.Env {
		if !strings.HasPrefix(name, "SKEIN_") {
			env[name] = value
		}
	}
	env[kind.OutputVar] = ownAt + "/" + outFile
	lines, inherit, err := variables(env)
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

// local holds the variables of the attempt whose values are paths on the machine.
var local = map[string]bool{kind.InputVar: true, kind.OutputVar: true}

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

// limitOptions returns resource limits that this process may set. Podman's defaults are higher than a process
// without CAP_SYS_RESOURCE may set.
func limitOptions() (args []string) {
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
		args = append(args, "--ulimit", fmt.Sprintf("%s=%d:%d", name, soft, hard))
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

// outputsMax bounds the outputs that are copied. The worker keeps fewer bytes.
const outputsMax = 1 << 20

// take copies the outputs of the container to the attempt, unchanged. It does not trust the file, because the
// container may have replaced it with something else.
func (c *container) take() error {
	from, err := os.OpenFile(filepath.Join(c.folder, ownFolder, outFile), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	if info, err := from.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.New("$SKEIN_OUTPUT is not a regular file: append to it, do not replace it")
	}
	text, err := io.ReadAll(io.LimitReader(from, outputsMax+1))
	if err != nil || len(text) == 0 {
		return err
	}
	if len(text) > outputsMax {
		return fmt.Errorf("they are larger than %d bytes", outputsMax)
	}
	return os.WriteFile(c.output, text, 0o600)
}
