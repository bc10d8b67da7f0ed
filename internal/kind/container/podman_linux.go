package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/kind"
)

// versionMin is the first major version of podman in which a container can write directly to the log of the
// attempt.
const versionMin = 4

// Engine returns a description of the program that makes containers on this machine. If something is missing
// for that, the error names it.
func Engine(of Settings) (string, error) {
	if err := lacks(of); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), askMax)
	defer cancel()
	text, err := exec.CommandContext(ctx, "podman", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("podman does not print its version: %w", err)
	}
	version := strings.TrimSpace(strings.TrimPrefix(string(text), "podman version "))
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < versionMin {
		return "", fmt.Errorf("podman is of version %.40q: install %d.0 or later", version, versionMin)
	}
	return "podman " + version, nil
}

// lacks returns an error that names what this machine lacks for containers. It runs no program.
func lacks(of Settings) error {
	switch of.Engine {
	case EngineNone:
		return errors.New("the setting container_engine is none")
	case EngineAuto, EnginePodman, "":
	default:
		return fmt.Errorf("the setting container_engine is %q: write auto, podman or none", of.Engine)
	}
	var missing []string
	for _, program := range []string{"podman", "crun", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s is missing here: install the packages podman (%d.0 or later) and crun", strings.Join(missing, " and "), versionMin)
	}
	if os.Geteuid() != 0 {
		return errors.New("a worker needs root for containers, because only root may make the namespaces that end with an attempt: run a worker as root for these tasks")
	}
	return nil
}

// askMax bounds a query to podman.
const askMax = 30 * time.Second

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// container is one attempt of a task.
type container struct {
	*kind.Env
	with   *With
	binds  []bind
	folder string // folder of this container, in the folder of the attempt
	output string // path in $SKEIN_OUTPUT of the attempt
	image  image
}

// say writes a line to the log of the attempt.
func (c *container) say(format string, args ...any) {
	fmt.Fprintf(c.Stderr, "skein: "+format+"\n", args...)
}

// Main implements kind.Kind.
func (Kind) Main(ctx context.Context, env *kind.Env) int {
	runtime.LockOSThread() // children are killed when this thread ends
	defer runtime.UnlockOSThread()
	c := &container{Env: env, output: os.Getenv(kind.OutputVar)}
	if code := c.prepare(); code != kind.Done {
		return code
	}
	if code := c.bring(ctx); code != kind.Done {
		return code
	}
	defer os.RemoveAll(c.folder) // if this process is killed, this folder is removed with that of the attempt
	if err := c.furnish(); err != nil {
		return c.fail(kind.Failed, "the container cannot be prepared: %v", err)
	}
	return c.run(ctx)
}

// fail ends the attempt with a reason. The reason is written to the log, and becomes the message of the
// attempt.
func (c *container) fail(code int, format string, args ...any) int {
	c.say(format, args...)
	_ = os.WriteFile(kind.EndFile(c.output), fmt.Appendf(nil, format, args...), 0o600)
	return code
}

// prepare reads the input, and checks that the machine allows it.
func (c *container) prepare() int {
	if !filepath.IsAbs(c.output) {
		c.say("%s is not set: this command is started by the attempt of a task", kind.OutputVar)
		return kind.Permanent
	}
	machine, err := readSettings(c.Input.Settings)
	if err != nil {
		return c.fail(kind.Failed, "%v", err)
	}
	if c.with, err = read(c.Input.With); err == nil {
		c.binds, err = c.with.binds(machine)
	}
	if err != nil {
		return c.fail(kind.Permanent, "%v", err)
	}
	if err := lacks(machine); err != nil {
		return c.fail(kind.Failed, "this machine cannot run a container: %v", err)
	}
	if filepath.Dir(c.Dir) != filepath.Dir(c.output) {
		return c.fail(kind.Permanent, "the working folder %s is not that of the attempt, and no container gets another one", c.Dir)
	}
	c.folder = c.output + ".container"
	if !plainPath(c.folder) || !plainPath(c.Dir) {
		return c.fail(kind.Permanent, "the path of the data folder has a comma, colon or quotation mark, which no container can mount: move the data folder")
	}
	return kind.Done
}

// image is an image in the store of the machine.
type image struct {
	id     string
	driver string // the storage driver
	store  string // the folder of the image store
}

// bring finds the image, and pulls it if the task asks for that.
func (c *container) bring(ctx context.Context) int {
	name, pulled := c.with.Image, false
	if c.with.Pull == PullAlways {
		if code := c.pull(ctx); code != kind.Done {
			return code
		}
		pulled = true
	}
	for {
		found, err := inspect(ctx, name)
		switch {
		case err != nil:
			return c.fail(kind.Failed, "image %s cannot be looked at: %v", name, err)
		case found.id != "":
			c.image = found
			c.say("image %s is sha256:%.12s", name, found.id)
			return kind.Done
		case c.with.Pull == PullNever:
			return c.fail(kind.Failed, "image %s is not on this machine, and pull is never: pull it here with podman pull %s, or set pull to missing", name, name)
		case pulled:
			return c.fail(kind.Failed, "image %s was pulled and is not there", name)
		}
		if code := c.pull(ctx); code != kind.Done {
			return code
		}
		pulled = true
	}
}

// stores matches the path of a layer, which begins with the folder of the image store.
var stores = regexp.MustCompile(`"(/[^"]*)/(overlay|vfs)/`)

// inspect looks for an image in the store of the machine. If the image is not there, it returns an image
// without an id, and no error.
func inspect(ctx context.Context, name string) (image, error) {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	cmd := child(ctx, "podman", "image", "inspect", "--format", "{{.Id}} {{.GraphDriver.Name}} {{json .GraphDriver.Data}}", "--", name)
	var said strings.Builder
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		if errExists := child(ctx, "podman", "image", "exists", "--", name).Run(); codeOf(errExists) == 1 {
			return image{}, nil
		}
		return image{}, fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	fields := strings.SplitN(strings.TrimSpace(string(text)), " ", 3)
	if len(fields) != 3 || len(fields[0]) != 64 {
		return image{}, fmt.Errorf("podman says %.200q", text)
	}
	found := image{id: fields[0], driver: fields[1]}
	if at := stores.FindStringSubmatch(fields[2]); at != nil {
		found.store = at[1]
	} else { // slower, but needed because not every storage driver reports its paths
		text, err = child(ctx, "podman", "info", "--format", "{{.Store.GraphRoot}}").Output()
		found.store = strings.TrimSpace(string(text))
	}
	if err != nil || !filepath.IsAbs(found.store) || !plainPath(found.store) {
		return image{}, fmt.Errorf("the store of images %.200q cannot be used: %w", found.store, errors.Join(err, errStore))
	}
	return found, nil
}

var errStore = errors.New("its path must be absolute, without comma, colon or quotation mark")

// away matches podman's messages about a registry that cannot be reached, or that wants fewer requests.
var away = regexp.MustCompile(`(?i)connection refused|no such host|i/o timeout|TLS handshake timeout|network is unreachable|no route to host|connection reset|temporary failure in name resolution|server misbehaving|deadline exceeded|unexpected EOF|toomanyrequests|too many requests|status code 5\d\d|\b50[0234] `)

// pull gets the image from its registry. The output of podman goes to the log.
func (c *container) pull(ctx context.Context) int {
	cmd := child(ctx, "podman", "pull", "--", c.with.Image)
	said := &tail{}
	cmd.Stdout, cmd.Stderr = io.Discard, io.MultiWriter(c.Stderr, said)
	err := cmd.Run()
	switch {
	case err == nil:
		return kind.Done
	case ctx.Err() != nil:
		return c.fail(kind.Failed, "the attempt was told to end while image %s was pulled", c.with.Image)
	case away.MatchString(said.text):
		return c.fail(kind.Away, "image %s cannot be pulled now: the registry cannot be reached", c.with.Image)
	default:
		return c.fail(kind.Failed, "image %s cannot be pulled: %s", c.with.Image, lastLine(said.text, err))
	}
}

// lastLine returns the last line of podman's output, or the text of err if there was no output.
func lastLine(said string, err error) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if last := strings.TrimSpace(strings.TrimPrefix(lines[len(lines)-1], "Error: ")); last != "" {
		return last
	}
	return err.Error()
}

// tail keeps the end of the text that is written to it.
type tail struct{ text string }

func (t *tail) Write(p []byte) (int, error) {
	const most = 8 << 10
	t.text += string(p)
	if len(t.text) > most {
		t.text = t.text[len(t.text)-most:]
	}
	return len(p), nil
}

// child returns a command that dies with this process and ends with ctx. The goroutine must be locked to its
// thread.
func child(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = ownEnv()
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// ownEnv returns the environment for podman: that of this process, without the variables of the attempt.
func ownEnv() (env []string) {
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "SKEIN_") {
			env = append(env, kv)
		}
	}
	return env
}

// codeOf returns the exit code of a command, or -1 if it has none.
func codeOf(err error) int {
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal())
		}
		return exit.ExitCode()
	}
	return -1
}
