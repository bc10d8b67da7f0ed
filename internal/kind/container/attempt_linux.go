package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/kind"
)

// Engine returns a description of the program that makes containers on this machine. If something is missing
// for that, the error names it.
func Engine(of Settings) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askMax)
	defer cancel()
	socket, err := choose(of)
	switch {
	case err != nil:
		return "", err
	case socket == "":
		return podmanVersion(ctx)
	}
	e, err := connect(ctx, socket)
	if err == nil {
		err = e.check(ctx, os.Geteuid())
	}
	if err != nil {
		return "", fmt.Errorf("the engine at %s cannot be used: %w%s", socket, err, socketRemedy(socket, err))
	}
	return e.name + " at " + socket, nil
}

// dockerSocket is the path of Docker's own socket.
const dockerSocket = "/var/run/docker.sock"

// choose returns the socket of the engine for containers, or "" for podman. It runs no program. Without a
// setting, it chooses Docker only if this process is root, because root gains no rights through Docker.
func choose(of Settings) (socket string, err error) {
	switch {
	case of.Engine == EngineNone:
		return "", errors.New("the setting container_engine is none")
	case of.Engine == EngineDocker:
		return dockerSocket, nil
	case strings.HasPrefix(of.Engine, SocketPrefix):
		return strings.TrimPrefix(of.Engine, SocketPrefix), nil
	case of.Engine != EngineAuto && of.Engine != EnginePodman && of.Engine != "":
		return "", CheckEngine(of.Engine)
	}
	err = podmanLacks()
	if err != nil && of.Engine != EnginePodman && os.Geteuid() == 0 && exists(dockerSocket) {
		return dockerSocket, nil
	}
	return "", err
}

// socketRemedy returns what a person can do if an engine does not answer at its socket.
func socketRemedy(socket string, err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return ": the user of this worker may not use it"
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED):
		return ""
	case socket == dockerSocket:
		return ": start dockerd (package docker.io)"
	}
	return ": start the engine; for rootless podman, systemctl --user start podman.socket, or podman system service --time 0 unix://" + socket + idsRemedy()
}

// idsRemedy returns what this user lacks for rootless podman, or "".
func idsRemedy() string {
	if os.Geteuid() == 0 {
		return ""
	}
	var lacks []string
	if _, err := exec.LookPath("newuidmap"); err != nil {
		lacks = append(lacks, "the package uidmap")
	}
	if me, err := user.Current(); err == nil {
		for _, table := range []string{"/etc/subuid", "/etc/subgid"} {
			text, _ := os.ReadFile(table)
			if !strings.HasPrefix(string(text), me.Username+":") && !strings.Contains(string(text), "\n"+me.Username+":") && !strings.Contains("\n"+string(text), "\n"+me.Uid+":") {
				lacks = append(lacks, "a line such as "+me.Username+":100000:65536 in "+table)
			}
		}
	}
	if lacks == nil {
		return ""
	}
	return ". It needs " + strings.Join(lacks, ", and ")
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
	socket string // socket of the engine; "" for podman
	image  image  // only for podman
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
	if c.socket != "" {
		return c.runDocked(ctx, c.socket)
	}
	if code := c.bring(ctx, c.look, c.pull); code != kind.Done {
		return code
	}
	defer os.RemoveAll(c.folder) // if this process is killed, this folder is removed with that of the attempt
	if err := errors.Join(c.furnish(), c.configure()); err != nil {
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
		c.binds, err = c.with.binds(&machine, c.Input.Namespace)
	}
	if err != nil {
		return c.fail(kind.Permanent, "%v", err)
	}
	if c.socket, err = choose(machine); err != nil {
		return c.fail(kind.Failed, "this machine cannot run a container: %v", err)
	}
	if filepath.Dir(c.Dir) != filepath.Dir(c.output) {
		return c.fail(kind.Permanent, "the task has the working folder %s, and a container can have only the folder of its attempt: remove dir", c.Dir)
	}
	c.folder = c.output + ".container"
	if !plainPath(c.folder) || !plainPath(c.Dir) {
		return c.fail(kind.Permanent, "the path of the data folder has a comma, colon or quotation mark, which no container can mount: move the data folder")
	}
	return kind.Done
}

// bring finds the image, and pulls it if the task asks for that. look returns the digest of the image, or ""
// if the machine does not have it.
func (c *container) bring(ctx context.Context, look func(context.Context, string) (string, error), pull func(context.Context) int) int {
	name, pulled := c.with.Image, false
	if c.with.Pull == PullAlways && !isLocal(name) {
		if code := pull(ctx); code != kind.Done {
			return code
		}
		pulled = true
	}
	for {
		id, err := look(ctx, name)
		switch {
		case err != nil:
			return c.fail(kind.Failed, "image %s cannot be inspected: %v", name, err)
		case id != "":
			c.say("image %s is sha256:%.12s", name, id)
			return kind.Done
		case isLocal(name):
			return c.fail(kind.Failed, "image %s is not on this machine, and no registry has names that begin with %s/: build or load it here", name, localRegistry)
		case c.with.Pull == PullNever:
			return c.fail(kind.Failed, "image %s is not on this machine, and pull is never: pull it here, or set pull to missing", name)
		case pulled:
			return c.fail(kind.Failed, "image %s was pulled and is not there", name)
		}
		if code := pull(ctx); code != kind.Done {
			return code
		}
		pulled = true
	}
}

// mayPull ends the attempt if the rules of egress do not allow a registry.
func (c *container) mayPull(ctx context.Context, registries ...string) int {
	err := allowed(ctx, c.Input.Egress, registries...)
	if refused, ok := egress.Refused(err); ok {
		return c.fail(kind.Permanent, "image %s cannot be pulled: %v", c.with.Image, refused)
	}
	if err != nil {
		return c.pulled(ctx, err, err.Error())
	}
	return kind.Done
}

// pulled ends the attempt if a pull has failed. said is the engine's message about it.
func (c *container) pulled(ctx context.Context, err error, said string) int {
	switch {
	case err == nil:
		return kind.Done
	case ctx.Err() != nil:
		return c.fail(kind.Failed, "the attempt was told to end while image %s was pulled", c.with.Image)
	case away.MatchString(said):
		return c.fail(kind.Away, "image %s cannot be pulled now: the registry cannot be reached", c.with.Image)
	default:
		return c.fail(kind.Failed, "image %s cannot be pulled: %s", c.with.Image, lastLine(said, err))
	}
}

const (
	ownFolder = "own"    // folder in that of the container, which is mounted at ownAt
	outFile   = "output" // file in ownFolder: $SKEIN_OUTPUT of the container
)

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
	return errors.Join(os.Chmod(out, 0o666), os.Chmod(own, 0o755))
}

// variables returns the variables of the task. A container gets none of the machine.
func (c *container) variables() map[string]string {
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
	return env
}

// local holds the variables of the attempt whose values are paths on the machine.
var local = map[string]bool{kind.InputVar: true, kind.OutputVar: true}

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
