package main

import (
	"github.com/spf13/cobra"
)

func (c *cli) scheduleCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "schedule", Short: "Triggers: what fires when, what was missed, what an edit would change",
		Example: "  skein schedule list\n  skein schedule next --cron \"15 2 * * *\" --timezone Europe/Berlin",
	}
	needsVerb(cmd)
	cmd.AddCommand(c.scheduleNextCmd())
	return cmd
}
