package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/cron"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

const (
	nextDefault = 10
	nextMax     = 10_000 // instants of an expression
	comingMax   = 1_000  // instants that a server returns at once
)

// nextFlags are the flags of `skein schedule next`.
type nextFlags struct {
	cron, zone, from  string
	gap, repeat, seed string
	n                 int
	system            bool
}

func (c *cli) scheduleNextCmd() *cobra.Command {
	f := &nextFlags{}
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use: "next [WORKFLOW[/TRIGGER]]", Short: "Show when triggers fire next, or when a cron expression would",
		Long: `Shows the next instants of a cron expression (--cron; no server is needed), or of the triggers of a server,
merged by time. The instants are later than --from (default now).
` + momentHelp + `

A remark names each clock change that affects the expression. Exit code 6: the expression is not valid, or never
fires.`,
		Example: `  skein schedule next --cron "15 2 * * *" --timezone Europe/Berlin --from 2027-03-26 -n 4
  skein schedule next --cron "0 0 L * *" -o json
  skein schedule next nightly-orders -n 20`,
		Args: cobra.MaximumNArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error {
			if f.n < 1 || f.n > nextMax {
				return usage("-n %d: use 1 to %d", f.n, nextMax)
			}
			if cmd.Flags().Changed("cron") {
				if len(args) > 0 {
					return usage("either --cron or %s", args[0])
				}
				return c.nextOfCron(f)
			}
			if f.n > comingMax {
				return usage("-n %d: use at most %d with triggers", f.n, comingMax)
			}
			for _, name := range []string{"dst-gap", "dst-repeat", "seed"} {
				if cmd.Flags().Changed(name) {
					return usage("--%s works only with --cron; the declaration of a trigger has its own value", name)
				}
			}
			return c.reading(func(ctx context.Context, s *session, args []string) error { return c.nextOfTriggers(ctx, s, args, f) })(ctx, args)
		}),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.cron, "cron", "", "cron expression of 5, 6 or 7 fields, or a name such as @daily")
	fl.StringVar(&f.zone, "timezone", "", "IANA time zone, such as Europe/Berlin (default: UTC, or that of the trigger)")
	fl.StringVar(&f.from, "from", "", "only instants after T (default now)")
	fl.IntVarP(&f.n, "count", "n", nextDefault, fmt.Sprintf("number of instants: 1 to %d, for triggers at most %d", nextMax, comingMax))
	fl.StringVar(&f.gap, "dst-gap", "", "rule for a time that a clock change skips: run_after (default) | skip | run_before")
	fl.StringVar(&f.repeat, "dst-repeat", "", "rule for a time that a clock change repeats: once (default: the first) | second | both")
	fl.BoolVar(&f.system, "system", false, systemHelp)
	fl.StringVar(&f.seed, "seed", "", "text from which H is hashed; for a trigger it is NAMESPACE/WORKFLOW/TRIGGER")
	return cmd
}

// instant is a time at which a trigger or a schedule fires. Scripts read its JSON, so the names must not
// change.
type instant struct {
	Time  api.Time `json:"time"`
	Local string   `json:"local"`

	at     time.Time // in the time zone of the event
	remark string
}

func newInstant(at time.Time) instant {
	return instant{Time: api.Time{Time: at}, Local: at.Format(time.RFC3339), at: at}
}

// wallForm is the layout of a local time for people.
const wallForm = "Mon 2006-01-02 15:04:05"

// nextOfCron implements `skein schedule next --cron`.
func (c *cli) nextOfCron(f *nextFlags) error {
	opt := cron.Options{Zone: f.zone, Seed: f.seed}
	var err error
	if opt.Gap, err = cron.ParseGap(f.gap); err != nil {
		return usage("--dst-gap %s: use run_after, skip or run_before", f.gap)
	}
	if opt.Repeat, err = cron.ParseRepeat(f.repeat); err != nil {
		return usage("--dst-repeat %s: use once, second or both", f.repeat)
	}
	schedule, err := cron.Parse(f.cron, opt)
	if err != nil {
		return scheduleError(err)
	}
	if f.from == "" {
		f.from = "now"
	}
	from, err := moments{now: time.Now(), zone: schedule.Zone()}.from("--from", f.from)
	if err != nil {
		return err
	}
	list := instantsOf(schedule, from, f.n)
	if c.format == "table" {
		c.say("%s", schedule.Describe())
	}
	if len(list) < f.n {
		c.say("%s after %s, and no more", count(len(list), "instant"), from.In(schedule.Zone()).Format(time.RFC3339))
	}
	return show(c, list, func(i instant) string { return i.Time.String() }, []column[instant]{
		{head: "LOCAL", get: func(i instant) string { return i.at.Format(wallForm) }, plain: func(i instant) string { return i.Local }},
		{head: "UTC", get: func(i instant) string { return i.at.UTC().Format(time.DateTime) }, plain: func(i instant) string { return i.Time.String() }},
		{head: "OFFSET", get: func(i instant) string { return i.at.Format("-07:00") }},
		{head: "REMARK", get: func(i instant) string { return i.remark }},
	})
}

// instantsOf lists the next instants. Each has the effect of the clock changes near it.
func instantsOf(s *cron.Schedule, from time.Time, n int) []instant {
	list := []instant{}
	last, more := from, true
	for len(list) < n {
		at, ok := s.Next(last)
		if more = ok; !ok {
			break
		}
		list, last = append(list, newInstant(at)), at
	}
	if len(list) == 0 {
		return list
	}
	// A clock change is noted at the nearest instant, which may come before the change. A change after the
	// last instant is noted only if it comes before the next instant, which is not listed.
	end := last
	if more {
		end, _ = s.Next(last)
	}
	near := 0
	for _, shift := range s.Shifts(from, end) {
		for near+1 < len(list) && !farther(list[near+1].at, list[near].at, shift.At) {
			near++
		}
		if more && near == len(list)-1 && !farther(end, last, shift.At) {
			break // the change belongs to an instant that is not listed
		}
		list[near].remark = joined(list[near].remark, shift.Effect)
	}
	return list
}

// farther reports whether a is farther from t than b is.
func farther(a, b, t time.Time) bool { return a.Sub(t).Abs() > b.Sub(t).Abs() }

// scheduleError gives an error of the parser of schedules its exit code, and turns its remedy into a hint.
func scheduleError(err error) error {
	var e *cron.Error
	if !errors.As(err, &e) {
		return err
	}
	bare := *e
	bare.Hint = ""
	refused := &said{errInvalid, bare.Error()}
	if e.Hint == "" {
		return refused
	}
	return hint(refused, e.Hint)
}

// nextOfTriggers implements `skein schedule next [WORKFLOW[/TRIGGER]]`.
func (c *cli) nextOfTriggers(ctx context.Context, s *session, args []string, f *nextFlags) error {
	when, err := momentsIn(f.zone)
	if err != nil {
		return err
	}
	q := skein.NextQuery{N: f.n, System: f.system}
	if q.From, err = when.from("--from", f.from); err != nil {
		return err
	}
	var next api.NextFires
	var r triggerRef
	if len(args) > 0 {
		if r, err = findTriggers(ctx, s, args[0]); err != nil {
			return err
		}
	}
	if r.trigger != "" {
		next, err = c.nextOfTrigger(ctx, s, r, q)
	} else {
		q.Workflow = r.workflow
		next, err = s.AllNextFires(ctx, q)
	}
	if err != nil {
		return err
	}
	list, err := comingOf(&next, f.zone)
	if err != nil {
		return err
	}
	if len(list) < f.n {
		c.say("%s, and no more", count(len(list), "instant"))
	}
	return show(c, list, func(i coming) string { return i.Time.String() }, []column[coming]{
		{head: "LOCAL", get: func(i coming) string { return i.at.Format(wallForm) }, plain: func(i coming) string { return i.Local }},
		{head: "UTC", get: func(i coming) string { return i.at.UTC().Format(time.DateTime) }, plain: func(i coming) string { return i.Time.String() }},
		{head: "OFFSET", get: func(i coming) string { return i.at.Format("-07:00") }},
		{head: "TRIGGER", get: func(i coming) string { return i.Workflow + "/" + i.Trigger }},
		{head: "REMARK", get: func(i coming) string { return i.remark }},
	})
}

// nextOfTrigger asks for the next fires of one trigger, which may be paused.
func (c *cli) nextOfTrigger(ctx context.Context, s *session, r triggerRef, q skein.NextQuery) (api.NextFires, error) {
	t, err := s.Schedule(ctx, r.workflow, r.trigger)
	if err != nil {
		return api.NextFires{}, noSuchTrigger(ctx, s, r, err)
	}
	switch {
	case t.Sensor:
		c.say("%s waits for an event: %s", r, t.Description)
	case t.State != "active":
		c.say("%s is %s: none of these fires as it is", r, t.State)
	}
	return s.NextFires(ctx, r.workflow, r.trigger, q)
}

// coming is an instant that a server has returned.
type coming struct {
	api.Instant
	at     time.Time // in the time zone of the output
	remark string
}

// comingOf reads local times and converts them to another zone if one is given. It puts each remark about a
// clock change at the nearest instant of the trigger.
func comingOf(next *api.NextFires, zone string) ([]coming, error) {
	list := make([]coming, len(next.Items))
	of := map[triggerRef][]int{}
	for i, it := range next.Items {
		at, err := time.Parse(time.RFC3339, it.Local)
		if err != nil {
			return nil, fmt.Errorf("answer of the server: local time %q: %w", it.Local, err)
		}
		if zone != "" {
			loc, err := cron.LoadZone(zone)
			if err != nil {
				return nil, scheduleError(err)
			}
			at = it.Time.In(loc)
			it.Local = at.Format(time.RFC3339)
		}
		list[i] = coming{Instant: it, at: at}
		ref := triggerRef{it.Workflow, it.Trigger}
		of[ref] = append(of[ref], i)
	}
	for _, shift := range next.Shifts {
		near := -1
		for _, i := range of[triggerRef{shift.Workflow, shift.Trigger}] {
			if near < 0 || !farther(list[i].at, list[near].at, shift.At.Time) {
				near = i
			}
		}
		if near >= 0 {
			list[near].remark = joined(list[near].remark, shift.Effect)
		}
	}
	return list, nil
}

// joined joins two remarks.
func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
