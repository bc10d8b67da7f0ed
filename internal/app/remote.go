package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/joining"
	"skein.dev/skein/internal/kind/house"
	"skein.dev/skein/internal/remote"
	"skein.dev/skein/internal/remote/health"
	"skein.dev/skein/internal/shutdown"
	"skein.dev/skein/internal/worker"
	"skein.dev/skein/sdk/shared/local"
)

// RunWorker runs a worker that is not a node, until ctx ends and the worker has drained. hurry ends the
// drain. When reload receives a function, the worker reads its settings again with that function.
func RunWorker(ctx context.Context, cfg *config.Config, log *slog.Logger, hurry <-chan struct{}, reload <-chan func() (*config.Config, error)) error {
	if err := worker.Supported(); err != nil {
		return err
	}
	member, err := membershipOf(cfg)
	if err != nil {
		return err
	}
	servers, err := cfg.NodesOfWorker()
	if err != nil {
		return err
	}
	door, err := health.Listen(ctx, cfg.HealthListen)
	if err != nil {
		return cfg.Wrong("health_listen", err)
	}
	defer door.Close()
	if err := datadir.Prepare(cfg.Data); err != nil {
		return err
	}
	held, err := datadir.Take(cfg.Data)
	if err != nil {
		return err
	}
	if err := held.AnnounceWorker(); err != nil {
		return errors.Join(err, held.Release())
	}
	rt, err := Transport(cfg)
	if err != nil {
		return errors.Join(err, held.Release())
	}
	rt.MaxIdleConnsPerHost = 8
	var renewed func() (string, error)
	if cfg.TokenFile != "" {
		renewed = func() (string, error) { return cfg.ReadToken() }
	}
	limits := egress.Rules{Proxy: cfg.EgressProxy}
	if cfg.Egress != "" {
		limits.Policies = []string{cfg.Egress}
	}
	through, renew, err := credential(cfg, member, rt, log)
	if err != nil {
		return errors.Join(err, held.Release())
	}
	extensions := house.Open(cfg, Version(), log)
	w, err := remote.New(ctx, remote.Config{Extensions: extensions, Egress: limits, Renewed: renewed, Certified: member != nil, Lease: cfg.Lease, Lock: held.File, Servers: servers, Token: cfg.APIToken, Transport: through, Name: cfg.Name, Slots: cfg.Slots, Groups: cfg.Groups, Room: cfg.Room,
		Labels: cfg.WorkerLabels(), Data: cfg.Data, PassEnv: cfg.PassEnv, Isolation: cfg.Isolation, Levels: cfg.WorkerLevels(), Users: cfg.TaskUsers, IsolationAuto: cfg.IsolationAuto, UIDs: cfg.TaskUIDs, ClosedBoxes: cfg.BoxNetwork == config.BoxNetworkNone, Protected: cfg.Protected(), Drain: cfg.Drain, Version: Version(), Log: log})
	if err != nil {
		return errors.Join(err, held.Release())
	}
	renewals, stopRenewals := context.WithCancel(context.WithoutCancel(ctx)) // they also continue while the worker's attempts end
	defer stopRenewals()
	go renew(renewals, w.Nodes)
	for _, server := range servers {
		if u, err := url.Parse(server); err == nil && u.Scheme == "http" && cfg.APIToken != "" && !cfg.Plaintext && !local.Loopback(u.Hostname()) {
			log.Warn("the token is sent in plain text; use the address of the node with https://", "code", "token_in_plaintext", "server", server)
		}
	}
	defer door.Serve(w, Version(), log)()
	live := config.NewLive(cfg, log, config.Rules{
		Read:    rereadOf(extensions, w, log),
		Apply:   func(name string, to *config.Config) bool { return name == "pass_env" && w.PassEnv(to.PassEnv) },
		Ignored: []string{"api_token"}, // when a node refuses the token, the worker reads the file again
	})
	defer live.Follow(reload)()
	log.Info("the worker has started", "code", "worker_started", "name", cfg.Name, "data", cfg.Data, "slots", cfg.Slots, "servers", servers)
	d := shutdown.Deadline{Drain: cfg.Drain, Most: stopMax, Hurry: hurry, Log: log}
	return d.Run(ctx, func() error { return errors.Join(w.Run(ctx, hurry), held.Release()) })
}

// credential returns the transport of a worker, which shows the worker's certificate if there is one. It also
// returns a function that renews the certificate at the nodes that the worker knows.
func credential(cfg *config.Config, m *joining.Membership, base *http.Transport, log *slog.Logger) (http.RoundTripper, func(context.Context, func() []string), error) {
	never := func(context.Context, func() []string) {}
	switch {
	case m != nil:
		t, err := joining.NewWorkerTransport(m, base, log)
		if err != nil {
			return nil, nil, err
		}
		return t, t.Run, nil
	case cfg.APIToken == "": // a node of this user on this machine writes its token into a file at each start
		return local.Transport(base), never, nil
	}
	return base, never, nil
}

// membershipOf returns the certificate of a worker, and completes the settings with its content. It returns
// nil if the worker has not joined, or uses a token.
func membershipOf(cfg *config.Config) (*joining.Membership, error) {
	if cfg.APIToken != "" {
		return nil, nil
	}
	m, err := joining.Read(cfg.Data)
	if errors.Is(err, joining.ErrNotJoined) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !cfg.ByFlag("name") { // the certificate contains the name
		cfg.Name = m.Name
	}
	if cfg.Default("slots") && m.Slots > 0 {
		cfg.Slots = min(cfg.Slots, int(m.Slots))
	}
	if cfg.Default("group") {
		cfg.Groups = m.Groups
	}
	if len(cfg.Server) == 0 {
		cfg.Server = m.Servers
	}
	return m, nil
}

// JoinWorker makes the worker of a data folder join with an invitation.
func JoinWorker(ctx context.Context, cfg *config.Config, by joining.Invitation) (*joining.Membership, error) {
	servers, err := cfg.NodesOfWorker()
	if err != nil {
		return nil, err
	}
	if err := datadir.Prepare(cfg.Data); err != nil {
		return nil, err
	}
	held, err := datadir.Take(cfg.Data) // a worker that is running here could renew the file at the same time
	if err != nil {
		return nil, err
	}
	defer held.Release()
	transport, err := Transport(cfg)
	if err != nil {
		return nil, err
	}
	return joining.Join(ctx, joining.Candidate{Name: cfg.Name, Data: cfg.Data, Servers: servers, Transport: transport}, by)
}
