package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// podmanVersion returns the name and version of podman.
func podmanVersion(ctx context.Context) (string, error) {
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

// podmanLacks returns an error that names what this machine lacks for containers of podman. It runs no
// program.
func podmanLacks() error {
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
		return errors.New("a worker needs root for containers, because only root may make the namespaces that end with an attempt: run a worker as root for these tasks, or set container_engine to the socket of the user's rootless podman, such as unix:///run/user/1000/podman/podman.sock")
	}
	return nil
}

// image is an image in the store of the machine.
type image struct {
	id     string
	driver string // the storage driver
	store  string // the folder of the image store
}

// look finds the image in the store of the machine.
func (c *container) look(ctx context.Context, name string) (id string, err error) {
	c.image, err = inspect(ctx, name)
	return c.image.id, err
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

// registries returns the registries that podman can ask for the image. For a name without a registry, these
// are those that podman searches.
func (c *container) registries(ctx context.Context) ([]string, error) {
	if registry := registryOf(c.with.Image); registry != "" {
		return []string{registry}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	text, err := child(ctx, "podman", "info", "--format", "{{json .Registries}}").Output()
	var has struct{ Search []string }
	if err == nil {
		err = json.Unmarshal(text, &has)
	}
	if err == nil && len(has.Search) == 0 {
		has.Search = []string{dockerHub} // most images in podman's list of short names are in this registry
	}
	return has.Search, err
}

// pull gets the image from its registry. The output of podman goes to the log.
func (c *container) pull(ctx context.Context) int {
	registries, err := c.registries(ctx)
	if err != nil {
		return c.fail(kind.Failed, "the registries of podman are not known: %v", err)
	}
	if code := c.mayPull(ctx, registries...); code != kind.Done {
		return code
	}
	cmd := child(ctx, "podman", "pull", "--", c.with.Image)
	said := &tail{}
	cmd.Stdout, cmd.Stderr = io.Discard, io.MultiWriter(c.Stderr, said)
	err = cmd.Run()
	return c.pulled(ctx, err, said.text)
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
