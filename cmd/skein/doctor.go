package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/doctor"
)

func (c *cli) doctorCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check whether Skein can run on this machine, and name remedies",
		Long:    "Checks the data folder, the disk, the limits, the clock, the store, the port, and how process trees are kept together.\nExit code: 0 no fault, perhaps warnings; 1 a fault.",
		Example: "  skein doctor\n  skein doctor -o json",
		Args:    cobra.NoArgs,
		RunE: c.do(func(ctx context.Context, _ []string) error {
			checks := doctor.Run(ctx, c.cfg)
			err := show(c, checks, func(k doctor.Check) string { return k.Name }, []column[doctor.Check]{
				{head: "CHECK", get: func(k doctor.Check) string { return k.Name }},
				{head: "STATE", get: func(k doctor.Check) string { return c.checkState(k.State) }},
				{head: "FOUND", get: func(k doctor.Check) string { return k.Found }},
			})
			if err != nil {
				return err
			}
			bad := 0
			for _, k := range checks {
				if k.Remedy != "" {
					c.say("%s → %s", k.Name, k.Remedy)
				}
				if k.State == doctor.Bad {
					bad++
				}
			}
			if bad > 0 {
				return fmt.Errorf("%s not right", count(bad, "thing"))
			}
			return nil
		}),
	}
	listenFlag(cmd)
	nodeFlags(cmd)
	return cmd
}

func (c *cli) checkState(s string) string {
	if !c.outTTY {
		return s
	}
	look := map[string][2]string{doctor.Good: {"✓", green}, doctor.Warning: {"!", yellow}, doctor.Bad: {"✗", red}}[s]
	return c.paint(look[1], look[0]+" "+s)
}
