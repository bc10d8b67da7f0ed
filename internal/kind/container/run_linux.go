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

// Files of a container in its folder.
const (
	startedFile = "started"      // the file exists when the container runs
	stopFile    = "stop"         // the file exists when the attempt has to end
	idFile      = "id"           // the file with the id of the container
	envFile     = "env"          // the environment of the container
	storeFile   = "storage.conf" // the settings of its store
	ownFolder   = "own"          // the folder that the container sees at ownAt
	outFile     = "output"       // $SKEIN_OUTPUT of the container, in ownFolder
)

// inside is what the first process of the namespaces does. Its arguments are the folder of the container and
// the options of podman run. The state of podman, of its runtime and of their locks is in memory that only
// these processes have mounted. On a machine that has cgroups of both versions, crun needs to see only those
// of version 2; it changes nothing in them. Once the container runs, the process only keeps the namespaces.
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

// furnish makes the files of the container in its folder.
func (c *container) furnish() error {
	own := filepath.Join(c.folder, ownFolder)
	if err := os.RemoveAll(c.folder); err != nil { // files of an earlier start in the same attempt
		return err
	}
	if err := os.MkdirAll(own, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(c.folder, 0o700); err != nil {
		return err
	}
	// Any user of the container writes the outputs. Other users of the machine cannot reach the folder above.
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

// options returns the options of podman run, and the variables that podman gets in its environment.
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

// local are the variables of the attempt that mean files of the machine.
var local = map[string]bool{kind.InputVar: true, kind.OutputVar: true}

// networkOption returns the option for a network. The processes of such a network are in the namespaces of
// the container, so it leaves no address or rule behind.
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

// processesMax is the number of processes that a container may have.
const processesMax = 4096

// limitOptions returns limits of processes that this process may set. The defaults of podman are above what a
// process without CAP_SYS_RESOURCE may have.
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

// initProgram returns the path of a program that is the first process of a container and passes signals on.
// Without it, a command that has no handler for TERM ends only by KILL. "" means that there is none.
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
	_ = cmd.Process.Kill() // and with it whatever is in the namespaces
	end := cmd.Wait()
	_ = os.Lchown(c.Dir, os.Geteuid(), os.Getegid()) // the container got it for its user
	switch {
	case errors.Is(err, errEnded): // the reason is in the log
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

// outputsMax bounds the outputs that are taken; the worker has a lower bound for what it keeps.
const outputsMax = 1 << 20

// take copies the outputs of the container to the attempt, unchanged. It is careful with the file, because a
// container could have replaced it with anything.
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
