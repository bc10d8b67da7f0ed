package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (c *cli) serverCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "server", Short: "Start a server: API, scheduler and worker in one process",
		Long: `Starts a server. It holds the data folder for as long as it lives; other commands find it there.

TERM or Ctrl-C: nothing new is taken, running attempts may finish for --drain, then they are killed. Unfinished
runs continue at the next start. A second signal ends the waiting.

HUP reads the settings again. log_level, pass_env, the settings of retention and the certificate take effect at once;
the log names other settings that changed and need a restart. If a file has an error, nothing changes. A server whose
terminal is closed goes on, because that sends HUP too.

With --db postgres://… it is a node of a cluster: every server on that database, each with a --name and a data folder of its
own. They share the work, and take over from one that is silent for longer than --lag.`,
		Example: `  skein server
  skein server --data /srv/skein --slots 16 --log-format json
  skein server --db postgres://skein@db/skein --name n1 --data /srv/skein-n1`,
		Args: cobra.NoArgs,
		RunE: c.do(func(ctx context.Context, _ []string) error { return c.serve(ctx, nil) }),
	}
	listenFlag(cmd)
	nodeFlags(cmd)
	return cmd
}
