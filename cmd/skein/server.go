package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (c *cli) serverCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "server", Short: "Start a server: API, scheduler and worker in one process",
		Long: `Starts a server. It locks the data folder while it runs, and other commands find it there.

After TERM or Ctrl-C, the server starts no attempt. Running attempts may finish within --drain, and are then
killed. Unfinished runs continue at the next start. A second signal ends the waiting.

After HUP, the server reads the settings again. log_level, pass_env, the settings of retention and the
certificate take effect at once. The log names other settings that changed and need a restart. If a file has an
error, nothing changes. A server continues when its terminal is closed, because this sends HUP, too.

With --db postgres://… the server is a node of a cluster. The cluster consists of all servers on that database,
each with a --name and a data folder of its own. The nodes share the work. If a node is silent for longer than
--lag, the other nodes take over its work.`,
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
