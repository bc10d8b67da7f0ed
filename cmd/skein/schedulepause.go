package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// pauseFlags are the flags of `skein schedule pause` and `skein schedule resume`.
type pauseFlags struct{ reason, from, until, zone string }

// schedulePauseCmd makes the command pause, or the command resume.
func schedulePauseCmd(c *cli, resume bool) *cobra.Command {
	f := &pauseFlags{}
	name, short := "pause", "Pause a trigger: it does not fire, and its instants are recorded as skipped"
	planned := `With --until, the pause is planned: the instants from --from (default: now) on, and before --until, are recorded as
skipped, and the trigger fires again by itself. If --until is a date, the pause includes that day. A trigger has up to
20 planned pauses, which do not overlap.`
	example := "  skein schedule pause nightly-orders/nightly --from 2026-12-24 --until 2026-12-26 --reason holidays"
	do := skein.PlanPause
	if resume {
		name, short = "resume", "Resume a paused trigger: it fires for future instants only"
		planned = "With --until, end the planned pause with this end. Instants that were skipped stay skipped."
		example = "  skein schedule resume nightly-orders/nightly --until 2026-12-26"
		do = skein.EndPause
	}
	cmd := &cobra.Command{
		Use: name + " WORKFLOW/TRIGGER", Short: short, Long: short + ".\n" + planned + "\n" + triggerRefHelp + "\n" + momentHelp,
		Example: "  skein schedule " + name + " nightly-orders/nightly --reason \"warehouse is moving\"\n" + example,
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			r, err := findTrigger(ctx, s, args[0])
			if err != nil {
				return err
			}
			req, err := f.request(ctx, s, r)
			if err != nil {
				return noSuchTrigger(ctx, s, r, err)
			}
			t, err := do(ctx, s.Client, r.workflow, r.trigger, req)
			if err != nil {
				return noSuchTrigger(ctx, s, r, err)
			}
			return c.scheduleTable([]api.Schedule{t})
		})),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.reason, "reason", "", "reason, for the ledger")
	fl.StringVar(&f.from, "from", "", "T: the beginning of a planned pause")
	fl.StringVar(&f.until, "until", "", "T: the end of a planned pause")
	fl.StringVar(&f.zone, "timezone", "", "time zone of dates (default: that of the trigger)")
	return cmd
}

// request returns the body of the call. Dates are days in the time zone of the trigger.
func (f *pauseFlags) request(ctx context.Context, s *session, r triggerRef) (api.PauseRequest, error) {
	req := api.PauseRequest{Reason: f.reason}
	if f.until == "" {
		if f.from != "" {
			return req, usage("--from: a planned pause needs an end: give --until")
		}
		return req, nil
	}
	if f.zone == "" {
		t, err := s.Schedule(ctx, r.workflow, r.trigger)
		if err != nil {
			return req, err
		}
		f.zone = t.Timezone
	}
	m, err := momentsIn(f.zone)
	if err != nil {
		return req, err
	}
	until, err := m.until("--until", f.until)
	if err != nil {
		return req, err
	}
	if _, err := time.Parse(time.DateOnly, f.until); err == nil {
		until = until.Add(time.Microsecond) // the day is included, so the pause ends with the next day
	}
	req.Until = &api.Time{Time: until}
	if f.from != "" {
		from, err := m.from("--from", f.from)
		if err != nil {
			return req, err
		}
		req.From = &api.Time{Time: from}
	}
	return req, nil
}

// pausesWords describes the planned pauses of a trigger.
func pausesWords(t api.Schedule) (words string) {
	for _, p := range t.PlannedPauses {
		words += fmt.Sprintf(" (paused from %s until %s", p.From, p.Until)
		if by := text(p.By); by != "" {
			words += " by " + by
		}
		if why := text(p.Reason); why != "" {
			words += ": " + why
		}
		words += ")"
	}
	return words
}
