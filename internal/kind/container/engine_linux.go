package container

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// engine is a client of Docker's API at a socket of this machine. Podman has the same API.
type engine struct {
	socket string
	client *http.Client
	path   string // prefix of all paths: the version of the API that the engine prefers
	name   string // for people, such as "docker 20.10.24"
	podman bool   // the engine is podman's service
}

// answerMax bounds the answers of an engine that are not streams.
const answerMax = 16 << 20

// connect asks the engine at a socket for its version.
func connect(ctx context.Context, socket string) (*engine, error) {
	d := &engine{socket: socket}
	d.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.dial(ctx) }}}
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	var version struct {
		Version    string
		APIVersion string `json:"ApiVersion"`
		Components []struct{ Name string }
	}
	if err := d.call(ctx, http.MethodGet, "/version", nil, &version); err != nil {
		return nil, err
	}
	d.name, d.path = "docker "+version.Version, "/v"+version.APIVersion
	if len(version.Components) > 0 && strings.Contains(version.Components[0].Name, "Podman") {
		d.name, d.podman = "podman "+version.Version, true
	}
	return d, nil
}

func (d *engine) dial(ctx context.Context) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", d.socket)
}

// refusal is an answer of an engine that reports a failure.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

// isStatus reports whether an engine has answered with a status.
func isStatus(err error, status int) bool {
	var e *refusal
	return errors.As(err, &e) && e.status == status
}

// open sends a request and returns the answer. The caller closes its body.
func (d *engine) open(ctx context.Context, method, path string, head http.Header, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://engine"+d.path+path, content)
	if err != nil {
		return nil, err
	}
	if head != nil {
		req.Header = head
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := d.client.Do(req)
	var sent *url.Error
	if errors.As(err, &sent) {
		err = sent.Err
	}
	if err != nil {
		return nil, err
	}
	return resp, answered(resp)
}

// answered returns an error if an answer reports a failure. It then closes the body.
func answered(resp *http.Response) error {
	if resp.StatusCode < http.StatusBadRequest {
		return nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var said struct{ Message string }
	if json.Unmarshal(text, &said) != nil || said.Message == "" {
		said.Message = fmt.Sprintf("the engine answers with the status %d: %.500q", resp.StatusCode, text)
	}
	return &refusal{resp.StatusCode, strings.Join(strings.Fields(said.Message), " ")}
}

// call sends a request and decodes the answer.
func (d *engine) call(ctx context.Context, method, path string, body, into any) error {
	resp, err := d.open(ctx, method, path, nil, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the engine's answer to %s cannot be read: %w", path, err)
	}
	return nil
}

// facts holds what an engine reports about itself.
type facts struct {
	OSType          string
	SecurityOptions []string
	Rootless        bool // reported by podman; Docker reports it in SecurityOptions
}

// Reasons why a worker cannot use an engine.
var (
	errSELinux  = errors.New("the engine uses SELinux, which this way of running containers does not support: set container_engine to podman, and run the worker as root")
	errRemapped = errors.New("the engine gives containers other users (userns-remap), which cannot use the files of an attempt: remove that setting of the engine, or set container_engine to podman")
	errRootless = errors.New("the engine is rootless, and this worker runs as root: run the worker as the user of the engine, or use the engine of root")
	errRootful  = errors.New("containers of this engine are root of the machine, and this worker is not: run the worker as root, or use the rootless engine of its user, such as unix:///run/user/1000/podman/podman.sock")
)

// suits returns an error if a worker of a user cannot use the engine. The files of an attempt must have the
// same owners on both sides.
func (f *facts) suits(user int) error {
	has := func(name string) bool {
		return slices.ContainsFunc(f.SecurityOptions, func(s string) bool { return strings.Contains(s, name) })
	}
	switch rootless := f.Rootless || has("name=rootless"); {
	case f.OSType != "" && f.OSType != "linux":
		return fmt.Errorf("the engine runs containers of %q, and Skein needs those of Linux", f.OSType)
	case has("name=selinux"):
		return errSELinux
	case has("name=userns"):
		return errRemapped
	case rootless && user == 0:
		return errRootless
	case !rootless && user != 0:
		return errRootful
	}
	return nil
}

// check returns an error if this process cannot use the engine.
func (d *engine) check(ctx context.Context, user int) error {
	var f facts
	if err := d.call(ctx, http.MethodGet, "/info", nil, &f); err != nil {
		return err
	}
	return f.suits(user)
}

// stream is the connection to the output of a container.
type stream struct {
	net.Conn
	from *bufio.Reader
}

// attach connects to a container before it is started. The connection ends only when it is closed.
func (d *engine) attach(ctx context.Context, id string) (*stream, error) {
	conn, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	req, err := http.NewRequest(http.MethodPost, "http://engine"+d.path+"/containers/"+id+"/attach?stream=1&stdout=1&stderr=1", http.NoBody)
	if err == nil {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "tcp")
		err = req.Write(conn)
	}
	s := &stream{conn, bufio.NewReaderSize(conn, 64<<10)}
	if err == nil {
		var resp *http.Response
		if resp, err = http.ReadResponse(s.from, req); err == nil {
			err = answered(resp)
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

// copy writes the output of a container to two logs until it ends. The output consists of parts with a head
// of eight bytes: the number of the log, three bytes without a meaning, and the size.
func (s *stream) copy(stdout, stderr io.Writer) error {
	for {
		var head [8]byte
		if _, err := io.ReadFull(s.from, head[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		to := stdout
		if head[0] == 2 {
			to = stderr
		}
		size := int64(head[4])<<24 | int64(head[5])<<16 | int64(head[6])<<8 | int64(head[7])
		if _, err := io.CopyN(to, s.from, size); err != nil {
			return err
		}
	}
}
