package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"skein.dev/skein/internal/app"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/localtoken"
	skein "skein.dev/skein/sdk"
	"skein.dev/skein/sdk/shared/local"
)

// session is a connection to a server in another process, or to a node in this process.
type session struct {
	*skein.Client
	node      *app.Node // the node in this process; nil if the server is another process
	observing bool      // the session only reads a data folder
	held      bool      // the node in this process starts no task
	close     func()    // ends the session and waits until its node has ended
	ended     chan error
	broken    bool // set after close: the node in this process ended with an error, which was printed
}

// newClient makes a client on behalf of the user of this process.
func (c *cli) newClient(url string, opts ...skein.Option) (*skein.Client, error) {
	opts = append(opts, skein.WithUser(me()), skein.WithTraceparent(os.Getenv("TRACEPARENT")))
	if is, ok := local.SessionAt(url); c.cfg.APIToken != "" {
		opts = append(opts, skein.WithToken(c.cfg.APIToken))
	} else if ok {
		opts = append(opts, skein.WithSession(is.Header()))
		// For a recorded address, the client itself finds the token, even after a restart of the node.
	} else if !localtoken.Recorded(url) {
		if token, err := localtoken.Of(c.cfg.Data, url); err == nil {
			opts = append(opts, skein.WithToken(token))
		}
	}
	if c.cfg.CACert != "" {
		rt, err := app.Transport(c.cfg)
		if err != nil {
			return nil, err
		}
		opts = append([]skein.Option{skein.WithTransport(rt)}, opts...) // a handler in this process takes precedence
	}
	if c.patient {
		opts = append(opts, skein.WithPatience(contactWait, func(e *skein.Error) { c.say("%s", notNow(e)) }))
	}
	k, err := skein.New(url, opts...)
	if err != nil {
		return nil, usage("--server: %v", err)
	}
	return k, nil
}

// servers returns the servers that a command talks to, as whole addresses. A data folder or a database on the
// command line takes precedence over servers in the environment.
func (c *cli) servers() []string {
	if !c.cfg.ByFlag("server") && (c.cfg.ByFlag("data") || c.cfg.ByFlag("db") || c.cfg.ByFlag("db_file")) {
		return nil
	}
	out := make([]string, len(c.cfg.Server))
	for i, at := range c.cfg.Server {
		out[i] = at
		if k, err := skein.New(at); err == nil { // newClient reports an invalid address
			out[i] = k.URL()
		}
	}
	return out
}

// private returns an error instead of sending a token, a session or a password over a connection that others
// could read.
func (c *cli) private(server string, secret bool) error {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" || !secret || c.cfg.Plaintext || local.Loopback(u.Hostname()) {
		return nil // newClient reports an invalid URL
	}
	return hint(usage("--server %s: your credential would be sent in plain text to another machine, and every machine on the way could read and use it", server),
		"ask it by its address with https://, go through an SSH tunnel, or allow it on a network that no one else can read: --insecure-plaintext")
}

// remote connects to the first of the servers named that is ready.
func (c *cli) remote(ctx context.Context) (*session, error) {
	var errs []error
	for _, url := range c.servers() {
		_, signedIn := local.SessionAt(url)
		if err := c.private(url, signedIn || c.cfg.APIToken != ""); err != nil {
			return nil, err
		}
		k, err := c.newClient(url)
		if err != nil {
			return nil, err
		}
		if _, err = k.ServerVersion(ctx); err == nil {
			return &session{Client: k, close: k.Close}, nil
		}
		k.Close()
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	if errors.Is(err, skein.ErrNotAllowed) {
		return nil, refused(c, err, c.servers()[0])
	}
	return nil, unreached(err)
}

// unreached adds the remedy to the error of a server that cannot be reached.
func unreached(err error) error {
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.Is(err, skein.ErrSpeaksTLS):
		return hint(err, "use its address with https://, and --ca-cert FILE if no public authority signed its certificate")
	case errors.Is(err, http.ErrSchemeMismatch):
		return hint(err, "the server does not use TLS: use its address with http://")
	case errors.As(err, &unknown):
		return hint(err, "name the authority that signed its certificate: --ca-cert FILE (or SKEIN_CA_CERT)")
	case errors.Is(err, skein.ErrNotFound):
		return hint(err, "the address of a server has no path: --server http://HOST:PORT")
	}
	return hint(err, "is it running? start one with: skein server")
}

// refused explains the error of a server that can be reached, but rejects the credential or requires one.
func refused(c *cli, err error, server string) error {
	var e *skein.Error
	if is, ok := local.SessionAt(server); ok && c.cfg.APIToken == "" && errors.As(err, &e) && e.Problem.Status == http.StatusUnauthorized {
		return hint(&said{skein.ErrNotAllowed, "the session of " + is.User + " at " + is.Address + " has ended"}, "sign in again: skein login "+is.Address)
	}
	return hint(err, "sign in: skein login "+server+"; or show a token that its operators make: skein token create --kind api --out FILE, --token-file FILE")
}

// holder connects to the server that holds the data folder. It returns nil if there is none.
func (c *cli) holder(ctx context.Context) (*session, error) {
	h, err := datadir.Find(ctx, c.cfg.Data)
	if err != nil || h == nil {
		return nil, err
	}
	if h.Worker {
		return nil, hint(&said{errUnreachable, h.Error()}, "ask a node: --server URL")
	}
	if h.Address == "" {
		return nil, hint(&said{errUnreachable, h.Error()}, "wait for it, or end it: kill "+fmt.Sprint(h.PID))
	}
	k, err := c.newClient(h.Address)
	if err != nil {
		return nil, err
	}
	// The process that holds the folder may be frozen or stuck. Then the error names the process, and the
	// wait for it is bounded.
	greet, cancel := context.WithTimeout(ctx, greetWait)
	defer cancel()
	if _, err := k.ServerVersion(greet); err != nil && ctx.Err() == nil {
		k.Close()
		if errors.Is(err, skein.ErrNotAllowed) {
			return nil, refused(c, err, h.Address)
		}
		if errors.Is(err, skein.ErrBusy) { // the quota of calls is used up
			return nil, err
		}
		return nil, hint(&said{skein.ErrUnreachable, h.Error() + ", but it does not answer"}, "is it stopped? look: ps "+fmt.Sprint(h.PID))
	}
	return &session{Client: k, close: k.Close}, nil
}

// greetWait bounds the time for the first answer of a server on this machine.
const greetWait = 10 * time.Second

// forReading connects to a server, or opens the data folder itself.
func (c *cli) forReading(ctx context.Context) (*session, error) {
	if len(c.servers()) > 0 {
		return c.remote(ctx)
	}
	if s, err := c.holder(ctx); s != nil || err != nil {
		return s, err
	}
	o, err := app.Observe(ctx, c.cfg)
	if errors.Is(err, dbadmin.ErrNoData) {
		return nil, hint(&said{errNoData, err.Error()}, "run something: skein run FILE")
	}
	if err != nil {
		return nil, err
	}
	k, err := c.newClient("http://"+config.ListenDefault, skein.WithHandler(o.Handler()))
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return &session{Client: k, observing: true, close: func() { k.Close(); _ = o.Close() }}, nil
}

// connectTries bounds the tries to connect while one process after the other takes over the data folder.
const connectTries = 20

// forWriting connects to a server, or starts a node in this process, which other commands find by the data
// folder like a server.
func (c *cli) forWriting(ctx context.Context, hold bool) (*session, error) {
	if len(c.servers()) > 0 {
		return c.remote(ctx)
	}
	for try := 0; ; try++ {
		if s, err := c.holder(ctx); s != nil || err != nil {
			return s, err
		}
		s, err := c.inProcess(ctx, hold)
		var locked *datadir.LockedError
		if errors.As(err, &locked) && try < connectTries {
			continue // another process has taken the folder first: connect to it
		}
		return s, err
	}
}

// inProcess makes this process a node on a port of its own. It starts the requested runs, but fires no due
// triggers. If hold is set, it accepts runs, but starts no tasks.
func (c *cli) inProcess(ctx context.Context, hold bool) (*session, error) {
	cfg := *c.cfg
	if !cfg.ListenChosen {
		cfg.Listen, cfg.ListenChosen = "127.0.0.1:0", true
	}
	cfg.Drain = 0 // a person who ends this process does not have to wait
	cfg.Hold, cfg.ByHand = hold, true
	// With the default name, which is the name of the host, this node would replace a server on this machine.
	if cfg.Postgres != "" && cfg.Default("name") {
		cfg.Name = fmt.Sprintf("%s-%d", cfg.Name, os.Getpid())
	}
	node, err := app.Open(ctx, &cfg, c.quietLog(&cfg))
	if err != nil {
		return nil, err
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &session{node: node, held: hold, ended: make(chan error, 1)}
	go func() { s.ended <- node.Run(work) }()
	s.close = func() {
		cancel()
		if err := <-s.ended; err != nil {
			s.broken = true
			c.say("skein: %v", err)
		}
	}
	select {
	case <-node.Ready():
	case err := <-s.ended:
		cancel()
		return nil, err
	case <-ctx.Done():
		s.close()
		return nil, ctx.Err()
	}
	if s.Client, err = c.newClient(node.URL(), skein.WithHandler(node.Handler())); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// quietLog returns the log for a node inside of a command. It leaves out the ordinary lines, which the user
// does not need.
func (c *cli) quietLog(cfg *config.Config) *slog.Logger {
	quiet := *cfg
	for _, v := range cfg.Values {
		if v.Name == "log_level" && v.Origin == "default" {
			quiet.LogLevel = "error"
		}
	}
	return config.NewLog(&quiet, c.err)
}

const (
	// idlePoll is the pause between two checks whether other runs have ended.
	idlePoll = 50 * time.Millisecond
)

// linger ends a session. A node in this process stays as long as it executes runs of other processes, which
// found it by the data folder. A node that starts no task does not stay, because these runs would not
// progress.
func (c *cli) linger(ctx context.Context, s *session) {
	defer s.close()
	if s.node == nil || s.node.Idle() {
		return
	}
	if s.held {
		c.say("no server holds %s: unfinished runs go on when one starts (skein server)", c.cfg.Data)
		return
	}
	c.say("other runs of this data folder are active here, so this process stays until they end (Ctrl-C: they continue when a node starts)")
	tick := time.NewTicker(idlePoll)
	defer tick.Stop()
	for !s.node.Idle() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// reading wraps a command that only reads.
func (c *cli) reading(f func(ctx context.Context, s *session, args []string) error) func(context.Context, []string) error {
	return func(ctx context.Context, args []string) error {
		ctx, stop := interruptible(ctx)
		defer stop()
		s, err := c.forReading(ctx)
		if err != nil {
			return err
		}
		defer s.close()
		return f(ctx, s, args)
	}
}

// writing wraps a command that changes something. If there is no server, the command starts no tasks. So
// after a crash, a person can stop or pause a run before its lost attempts are tried again.
func (c *cli) writing(f func(ctx context.Context, s *session, args []string) error) func(context.Context, []string) error {
	return func(ctx context.Context, args []string) error {
		ctx, stop := interruptible(ctx)
		defer stop()
		c.patient = true
		s, err := c.forWriting(ctx, true)
		if err != nil {
			return err
		}
		err = f(ctx, s, args)
		c.linger(ctx, s)
		return err
	}
}

// notHere reports whether an error means that no server has answered.
func notHere(err error) bool {
	var e *skein.Error
	if errors.As(err, &e) {
		return e.Problem.Status == http.StatusServiceUnavailable
	}
	return errors.Is(err, skein.ErrUnreachable)
}

// isRunID reports whether s looks like a complete run id.
func isRunID(s string) bool { return len(s) == 36 && strings.Count(s, "-") == 4 }

// isNoData reports whether an error only means that a data folder is still empty.
func isNoData(err error) bool {
	var h *hinted
	return errors.As(err, &h) && h.err != nil && errors.Is(h.err, errNoData)
}
