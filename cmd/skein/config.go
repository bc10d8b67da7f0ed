package main

import (
	"context"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/config"
)

func (c *cli) configCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Show the settings",
		Example: "  skein config view --origin",
	}
	needsVerb(cmd)
	cmd.AddCommand(c.configViewCmd())
	return cmd
}

func (c *cli) configViewCmd() *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use: "view", Short: "Show every setting, and where each value came from",
		Long: `Shows every setting. A setting has the value of its flag, else of its environment variable (SKEIN_ and the name
in capitals), else of the config file ($XDG_CONFIG_HOME/skein/config.yaml or --config), else its default.`,
		Example: "  skein config view --origin\n  SKEIN_SLOTS=8 skein config view -o json",
		Args:    cobra.NoArgs,
		RunE: c.do(func(context.Context, []string) error {
			cols := []column[config.Value]{
				{head: "SETTING", get: func(v config.Value) string { return v.Name }},
				{head: "VALUE", get: func(v config.Value) string { return v.Value }},
			}
			if origin {
				cols = append(cols, column[config.Value]{head: "ORIGIN", get: func(v config.Value) string { return v.Origin }})
			}
			return show(c, c.cfg.Values, func(v config.Value) string { return v.Name }, cols)
		}),
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "show where each value came from")
	nodeFlags(cmd)
	listenFlag(cmd)
	return cmd
}
