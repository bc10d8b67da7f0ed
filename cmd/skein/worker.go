package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/app"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/datadir"
)

func (c *cli) workerCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "worker", Short: "Start a worker: it runs tasks for the nodes of a cluster",
		Long: `Starts a worker. It attaches to one of the nodes, runs what it is given, and needs no access to the database.
When its node is gone it attaches to another, with all that it runs; it learns of the others by itself. When this process dies,
what it ran goes on for --lease; started again over the same data folder within it, it goes on with that.

Tasks choose workers by group, labels or name (group:, labels:, node: in the workflow file).

TERM or Ctrl-C: nothing new is taken, running attempts may finish for --drain, then they are killed, and run again
elsewhere. A second signal ends the waiting. HUP reads log_level and pass_env again, and names other settings that changed.`,
		Example: `  skein worker --server http://node-1:8080,http://node-2:8080 --name w1 --slots 8
  skein worker --server http://node-1:8080 --group etl-workers --label disk=ssd,zone=a --data /srv/skein-w1`,
		Args: cobra.NoArgs,
		RunE: c.do(func(ctx context.Context, _ []string) error { return c.work(ctx) }),
	}
	f := cmd.Flags()
	f.String("name", "", "stable name of this worker (default the host's)")
	f.String("slots", "", "attempts that run at once (default two per core)")
	f.String("pass-env", "", "further variables of this process that tasks get, as A,B,…")
	f.String("isolation", "", "which files tasks may reach: none (all that the user may) | fence (default none)")
	f.String("egress", "", "addresses that http tasks may call: any, public, or networks, as public,10.0.0.0/8 (default what its home says)")
	f.String("egress-proxy", "", "proxy that http tasks go through: a URL, or environment for that of http_proxy (default none)")
	f.String("lease", "", "how long running tasks outlive a worker that is gone, frozen, or heard by no node (default 15s)")
	f.String("health-listen", "", "address for /livez, /readyz and /metrics, such as :9090 (loopback if it has no host; default none)")
	f.String("drain", "", "how long a shutdown waits for running attempts (default 1m)")
	f.String("group", "", "worker groups that it belongs to, as A,B,…")
	f.String("label", "", "labels that it carries, as NAME=VALUE,…")
	f.String("cpu", "", "cores for tasks that name what they take (default: what this process may use)")
	f.String("memory", "", "memory for tasks that name what they take, such as 4Gi (default: what this process may use)")
	f.String("log-level", "", "debug | info | warn | error")
	f.String("log-format", "", "text | json")
	cmd.AddCommand(workerInviteCmd(c), workerJoinCmd(c), workerListCmd(c), workerRevokeCmd(c))
	return cmd
}

// work runs a worker until a signal. The first signal lets running attempts finish, the second ends them, and
// the third makes the process leave at once.
func (c *cli) work(ctx context.Context) error {
	sig, stopSignals := signals()
	defer stopSignals()
	hup, stopHangups := hangups()
	defer stopHangups()
	reload := make(chan func() (*config.Config, error), 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hurry := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- app.RunWorker(ctx, c.cfg, config.NewLog(c.cfg, c.err), hurry, reload) }()
	for n := 0; ; {
		select {
		case err := <-ended:
			if errors.Is(err, config.ErrNoServer) {
				return usage("%v", err)
			}
			var locked *datadir.LockedError
			if errors.As(err, &locked) {
				return c.alreadyHeld(ctx, locked)
			}
			return err
		case <-hup:
			select {
			case reload <- c.load:
			default: // one waits already
			}
		case <-sig:
			switch n++; n {
			case 1:
				cancel()
			case 2:
				close(hurry)
			default:
				return errInterrupted
			}
		}
	}
}
