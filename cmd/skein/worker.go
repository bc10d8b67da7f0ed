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
		Long: `Starts a worker. It attaches to one of the nodes, runs the tasks that the node assigns, and needs no access to
the database. It learns the addresses of the other nodes by itself. If its node is gone, it attaches to another
one, and its tasks continue. If the worker's process dies, its tasks run on for --lease. A worker that starts
again with the same data folder within this time takes them over.

Tasks choose workers by group, labels or name (group:, labels:, node: in the workflow file).

After TERM or Ctrl-C, the worker starts no attempt. Running attempts may finish within --drain, are then killed,
and run again elsewhere. A second signal ends the waiting. After HUP, the worker reads log_level and pass_env
again, and names other settings that changed.`,
		Example: `  skein worker --server http://node-1:8080,http://node-2:8080 --name w1 --slots 8
  skein worker --server http://node-1:8080 --group etl-workers --label disk=ssd,zone=a --data /srv/skein-w1`,
		Args: cobra.NoArgs,
		RunE: c.do(func(ctx context.Context, _ []string) error { return c.work(ctx) }),
	}
	f := cmd.Flags()
	f.String("name", "", "stable name of this worker (default: the name of the host)")
	f.String("slots", "", "number of attempts that run at the same time (default: two per core)")
	f.String("pass-env", "", "environment variables of this process that tasks get in addition, as A,B,…")
	kindFlags(cmd)
	isolationFlags(f)
	f.String("egress", "", "addresses that http tasks may call: any, public, or networks, as public,10.0.0.0/8 (default: the policy of its node)")
	f.String("egress-proxy", "", "proxy for http tasks: a URL, or the word environment to use http_proxy and https_proxy (default none)")
	f.String("lease", "", "time for which running tasks outlive a worker that has died, is frozen, or reaches no node (default 15s)")
	f.String("health-listen", "", "address for /livez, /readyz and /metrics, such as :9090 (without a host only on loopback; default none)")
	f.String("drain", "", "time for which a shutdown waits for running attempts (default 1m)")
	f.String("group", "", "groups of this worker, as A,B,…")
	f.String("label", "", "labels of this worker, as NAME=VALUE,…")
	f.String("cpu", "", "cores for tasks with resources (default: all that this process may use)")
	f.String("memory", "", "memory for tasks with resources, such as 4Gi (default: all that this process may use)")
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
			default: // another reload is already waiting
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
