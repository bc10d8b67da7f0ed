package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/kind"
)

// Labels of the containers that an engine makes for attempts.
const (
	labelPrefix = "dev.skein."
	labelOwner  = labelPrefix + "owner" // the process of the attempt: see ownerText
	labelRun    = labelPrefix + "run"
	labelTask   = labelPrefix + "task"
	labelToken  = labelPrefix + "token"
)

// docked is an attempt whose container an engine with Docker's API makes. The container is no child of this
// process, so its first process is this program, which ends when this process does: see Inside.
type docked struct {
	*container
	*engine
	image struct {
		ID     string `json:"Id"`
		Config struct {
			Entrypoint, Cmd []string
		}
	}
	id string // id of the container
}

// runDocked executes the attempt with the engine at a socket.
func (c *container) runDocked(ctx context.Context, socket string) int {
	e, err := connect(ctx, socket)
	if err != nil {
		return c.fail(kind.Away, "the engine at %s cannot be reached now: %v", socket, err)
	}
	if err := e.check(ctx, os.Geteuid()); err != nil {
		return c.fail(kind.Failed, "this machine cannot run a container: %v", err)
	}
	d := &docked{container: c, engine: e}
	if err := d.sweep(ctx); err != nil {
		c.say("containers of earlier attempts were not looked for: %v", err)
	}
	if code := c.bring(ctx, d.look, d.pull); code != kind.Done {
		return code
	}
	defer os.RemoveAll(c.folder) // if this process is killed, this folder is removed with that of the attempt
	if err := c.furnish(); err != nil {
		return c.fail(kind.Failed, "the container cannot be prepared: %v", err)
	}
	o, body, err := d.describe()
	if err != nil {
		return c.fail(kind.Permanent, "%v", err)
	}
	defer d.remove() // if this process is killed, the engine removes the container when it ends
	if err := d.create(ctx, body); err != nil {
		return d.failed(ctx, "the container cannot be made", err)
	}
	return d.execute(ctx, o)
}

// failed ends the attempt because the engine has refused something.
func (d *docked) failed(ctx context.Context, what string, err error) int {
	if ctx.Err() != nil {
		return d.fail(kind.Failed, "the attempt was told to end before the command ran")
	}
	return d.fail(kind.Failed, "%s: %v", what, err)
}

// look returns the digest of the image, or "" if the machine does not have it.
func (d *docked) look(ctx context.Context, name string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	err = d.call(ctx, http.MethodGet, "/images/"+name+"/json", nil, &d.image)
	if isStatus(err, http.StatusNotFound) {
		return "", nil
	}
	return strings.TrimPrefix(d.image.ID, "sha256:"), err
}

// pull gets the image from its registry. The engine's messages about the progress go to the log.
func (d *docked) pull(ctx context.Context) int {
	name := d.with.Image
	registry := registryOf(name)
	if registry == "" {
		registry = dockerHub
	}
	if code := d.mayPull(ctx, registry); code != kind.Done {
		return code
	}
	head := http.Header{}
	auth, err := credentials(ctx, registry)
	if auth != "" {
		head.Set("X-Registry-Auth", auth)
	}
	if err == nil {
		err = d.pullOf(ctx, name, head)
	}
	return d.pulled(ctx, err, fmt.Sprint(err))
}

func (d *docked) pullOf(ctx context.Context, name string, head http.Header) error {
	from, tag := name, "latest"
	if at := strings.LastIndexByte(name, ':'); at > strings.LastIndexByte(name, '/') {
		from, tag = name[:at], name[at+1:]
	}
	if at := strings.IndexByte(name, '@'); at >= 0 {
		from, tag = name[:at], name[at+1:]
		if at := strings.LastIndexByte(from, ':'); at > strings.LastIndexByte(from, '/') {
			from = from[:at]
		}
	}
	resp, err := d.open(ctx, http.MethodPost, "/images/create?"+url.Values{"fromImage": {from}, "tag": {tag}}.Encode(), head, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for lines := json.NewDecoder(resp.Body); ; {
		var said struct{ ID, Status, Error string }
		switch err := lines.Decode(&said); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case said.Error != "":
			return errors.New(strings.Join(strings.Fields(said.Error), " "))
		case said.Status != "" && (said.ID == "" || said.ID == tag): // not the progress of each layer
			fmt.Fprintln(d.Stderr, said.Status)
		}
	}
}

// mount is a mount of a container, as Docker's API describes it.
type mount struct {
	Type, Source, Target string
	ReadOnly             bool
	BindOptions          *bindOptions `json:",omitempty"`
}

type bindOptions struct{ NonRecursive bool }

// specification describes a container that the engine makes.
type specification struct {
	Image                      string
	User                       string `json:",omitempty"`
	WorkingDir                 string
	Entrypoint, Cmd            []string
	Env                        []string
	Labels                     map[string]string
	AttachStdout, AttachStderr bool
	Healthcheck                struct{ Test []string }
	HostConfig                 hostConfig
}

type hostConfig struct {
	AutoRemove                   bool
	NetworkMode                  string
	CapDrop, SecurityOpt         []string
	PidsLimit                    int64
	NanoCpus, Memory, MemorySwap int64    //nolint:revive // the name in the API
	Ulimits                      []ulimit `json:",omitempty"`
	LogConfig                    struct{ Type string }
	Mounts                       []mount
}

// describe returns the order for the first process of the container, and the specification of the container.
func (d *docked) describe() (o order, s *specification, err error) {
	argv, file, code, err := d.with.Run.command()
	if err == nil && file != "" {
		err = os.WriteFile(filepath.Join(d.folder, ownFolder, file), []byte(code), 0o644)
	}
	if err != nil {
		return o, nil, err
	}
	if argv == nil {
		argv = append(append(argv, d.image.Config.Entrypoint...), d.image.Config.Cmd...)
	}
	f, err := firstProcess(d.folder)
	if err != nil {
		return o, nil, err
	}
	owner, err := ownerText(os.Getpid())
	if err != nil {
		return o, nil, err
	}
	in := &d.Input
	s = &specification{Image: d.image.ID, User: d.with.User, WorkingDir: "/", Entrypoint: f.argv, Cmd: []string{}, AttachStdout: true, AttachStderr: true,
		Labels: map[string]string{labelOwner: owner, labelPrefix + "namespace": in.Namespace, labelPrefix + "workflow": in.Workflow, labelRun: in.Run, labelTask: in.Task, labelToken: strconv.FormatInt(in.Token, 10)}}
	s.Healthcheck.Test = []string{"NONE"}
	h := &s.HostConfig
	h.AutoRemove, h.CapDrop, h.SecurityOpt = true, []string{"ALL"}, []string{"no-new-privileges"}
	h.LogConfig.Type = "none" // this process reads the output, so the engine need not keep it
	h.NetworkMode = "bridge"
	if d.with.Network == NetworkNone {
		h.NetworkMode = NetworkNone
	}
	h.PidsLimit, h.NanoCpus, h.Memory, h.MemorySwap = processesMax, in.CPU*1_000_000, in.Memory, in.Memory // without swap
	if d.podman {
		h.Ulimits = ulimits() // the same limits as for podman without its service
	}
	h.Mounts = []mount{{Type: "bind", Source: d.Dir, Target: workAt}, {Type: "bind", Source: filepath.Join(d.folder, ownFolder), Target: ownAt}}
	for to, from := range f.files {
		h.Mounts = append(h.Mounts, mount{Type: "bind", Source: from, Target: to, ReadOnly: true})
	}
	all, err := d.mounts()
	for _, m := range all {
		of := mount{Type: "bind", Source: m.from, Target: m.at, ReadOnly: !m.write}
		if !m.write {
			of.BindOptions = &bindOptions{NonRecursive: true}
		}
		h.Mounts = append(h.Mounts, of)
	}
	return order{argv, d.variables()}, s, err
}

// containerName returns the name of the container of an attempt.
func containerName(run, task, token string) string {
	sum := sha256.Sum256([]byte(task)) // the name of a task may have characters that a container cannot have
	return fmt.Sprintf("skein-%s-%s-%s", run, hex.EncodeToString(sum[:4]), token)
}

// create makes the container. An earlier start of the same attempt may have left one with the same name.
func (d *docked) create(ctx context.Context, s *specification) error {
	name := containerName(d.Input.Run, d.Input.Task, strconv.FormatInt(d.Input.Token, 10))
	var made struct {
		ID string `json:"Id"`
	}
	create := func() error {
		return d.call(ctx, http.MethodPost, "/containers/create?name="+name, s, &made)
	}
	err := create()
	if isStatus(err, http.StatusConflict) {
		within, cancel := context.WithTimeout(ctx, removeMax)
		defer cancel()
		if err = d.end(within, name); err == nil {
			err = create()
		}
	}
	if err == nil && made.ID == "" {
		err = errors.New("the engine's answer has no id")
	}
	d.id = made.ID
	return err
}

// end kills and removes a container, and waits until it has gone. If there is none, that is no error.
func (d *docked) end(ctx context.Context, id string) error {
	for {
		err := d.call(ctx, http.MethodDelete, "/containers/"+id+"?force=1&v=1", nil, nil)
		switch {
		case isStatus(err, http.StatusNotFound):
			return nil
		case err != nil && !isStatus(err, http.StatusConflict): // a conflict means that the engine is already removing it
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond): // the pause between two looks
		}
	}
}

// removeMax bounds how long an attempt that has ended waits for the removal of its container.
const removeMax = 10 * time.Second

func (d *docked) remove() {
	if d.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeMax)
	defer cancel()
	if err := d.end(ctx, d.id); err != nil {
		d.say("container %.12s is not removed yet: %v", d.id, err)
	}
}

// execute starts the container and waits for its end.
func (d *docked) execute(ctx context.Context, o order) int {
	always := context.WithoutCancel(ctx) // a started container is followed to its end
	s, err := d.attach(ctx, d.id)
	if err != nil {
		return d.failed(ctx, "the output of the container cannot be read", err)
	}
	defer s.Close()
	l, err := d.listen()
	if err != nil {
		return d.failed(ctx, "the container cannot be prepared", err)
	}
	defer l.close() // the container then ends, if it has not ended before
	ended, err := d.open(always, http.MethodPost, "/containers/"+d.id+"/wait?condition=next-exit", nil, nil)
	if err != nil {
		return d.failed(ctx, "the container cannot be followed", err)
	}
	defer ended.Body.Close()
	if err := d.call(ctx, http.MethodPost, "/containers/"+d.id+"/start", nil, nil); err != nil {
		return d.failed(ctx, "the container cannot be started", err)
	}
	go l.tell(o, d.own)
	stop := context.AfterFunc(ctx, func() {
		if err := d.call(always, http.MethodPost, "/containers/"+d.id+"/kill?signal=TERM", nil, nil); err != nil && !isStatus(err, http.StatusNotFound) && !isStatus(err, http.StatusConflict) {
			d.say("the container did not get TERM: %v", err)
		}
	})
	err = s.copy(d.Stdout, d.Stderr)
	stop()
	var exit struct {
		StatusCode *int
		Error      *struct{ Message string }
	}
	if errEnd := json.NewDecoder(io.LimitReader(ended.Body, answerMax)).Decode(&exit); errEnd != nil {
		err = errors.Join(err, errEnd)
	}
	_ = os.Lchown(d.Dir, os.Geteuid(), os.Getegid()) // the folder may belong to the container's user
	refused := l.why()
	switch {
	case refused != nil && ctx.Err() == nil:
		return d.fail(kind.Permanent, "the container gets no command: %v", refused)
	case exit.Error != nil && exit.Error.Message != "":
		return d.fail(kind.Failed, "the container ended: %s", exit.Error.Message)
	case exit.StatusCode == nil:
		return d.fail(kind.Failed, "the engine has ended before the container, so the container ends, too: %v", err)
	case *exit.StatusCode != 0:
		return *exit.StatusCode
	case err != nil:
		return d.fail(kind.Failed, "the output of the container cannot be read: %v", err)
	}
	if err := d.take(); err != nil {
		return d.fail(kind.Failed, "the outputs of the container cannot be taken: %v", err)
	}
	return kind.Done
}

// own gives the working folder to the user of the container. A worker that is not root cannot do that.
func (d *docked) own(uid, gid int) error {
	switch {
	case uid == os.Geteuid() && gid == os.Getegid():
		return nil
	case os.Geteuid() != 0:
		return errors.New("the container has a user whose files the user of this worker could not remove: the engine is rootless, so the task needs user: 0, which is the user of the worker")
	}
	return filepath.WalkDir(d.Dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
}
