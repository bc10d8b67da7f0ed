package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/doctor"
	"skein.dev/skein/internal/workflow"
	skein "skein.dev/skein/sdk"
)

func (c *cli) doctorCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check whether Skein can run on this machine, and name remedies",
		Long: `Checks the data folder, the disk, the limits, the clock, the store, the port, and how process trees are kept together.
If a node runs on the data folder, it names the sources of events whose other system is away.
Exit code: 0 no fault, perhaps warnings; 1 a fault.`,
		Example: "  skein doctor\n  skein doctor -o json",
		Args:    cobra.NoArgs,
		RunE: c.do(func(ctx context.Context, _ []string) error {
			checks := append(doctor.Run(ctx, c.cfg), c.checkSources(ctx)...)
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

const (
	// sourcesRead bounds the triggers that doctor reads.
	sourcesRead = 10_000
	// sourcesTold bounds the sources that doctor names.
	sourcesTold = 10
)

// checkSources asks the node of the data folder, if there is one, which sources of events are away. It
// returns no check if there is no source.
func (c *cli) checkSources(ctx context.Context) []doctor.Check {
	if h, err := datadir.Find(ctx, c.cfg.Data); err != nil || h == nil || h.Worker || h.Address == "" {
		return nil
	}
	k := doctor.Check{Name: "sources", State: doctor.Good}
	s, err := c.holder(ctx)
	if s == nil {
		if err == nil { // the node has just ended
			return nil
		}
		k.State, k.Found = doctor.Warning, "unknown: "+err.Error()
		return []doctor.Check{k}
	}
	defer s.close()
	n, away := 0, []string{}
	kinds := append(workflow.OutsideKinds(), workflow.KindPoll, workflow.KindQuery, workflow.KindObject)
	q := skein.SchedulesQuery{State: "active", Kind: strings.Join(kinds, ","), Limit: 1000}
	for t, err := range s.EachSchedule(ctx, q) {
		if err != nil {
			k.State, k.Found = doctor.Warning, "unknown: "+err.Error()
			return []doctor.Check{k}
		}
		if n++; t.Source != nil && t.Source.AwayAt != nil {
			if away = append(away, fmt.Sprintf("%s/%s (%s) since %s: %s", t.Workflow, t.Name, t.Kind, t.Source.AwayAt, text(t.Source.Why))); len(away) == 1 {
				k.Remedy = "repair the other system or its connection (skein connection test NS/NAME); a node tries again within a minute; skein schedule get " + t.Workflow + "/" + t.Name + " shows its state"
			}
		}
		if n == sourcesRead {
			break
		}
	}
	if n == 0 {
		return nil
	}
	if k.Found = count(n, "source"); len(away) > 0 {
		k.State = doctor.Warning
		k.Found += fmt.Sprintf(", %d away: %s", len(away), strings.Join(away[:min(len(away), sourcesTold)], "; "))
		if more := len(away) - sourcesTold; more > 0 {
			k.Found += fmt.Sprintf("; and %d more", more)
		}
	}
	return []doctor.Check{k}
}

func (c *cli) checkState(s string) string {
	if !c.outTTY {
		return s
	}
	look := map[string][2]string{doctor.Good: {"✓", green}, doctor.Warning: {"!", yellow}, doctor.Bad: {"✗", red}}[s]
	return c.paint(look[1], look[0]+" "+s)
}
