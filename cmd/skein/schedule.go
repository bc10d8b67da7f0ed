package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// triggerRefHelp is part of every help text that takes WORKFLOW/TRIGGER.
const triggerRefHelp = `WORKFLOW is NAME, or NS/NAME outside the namespace default. TRIGGER is the name of one of its triggers. It can
be left out if the workflow has only one.`

func (c *cli) scheduleCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "schedule", Short: "Show and control triggers: past and next instants, missed instants, the effect of an edit",
		Example: "  skein schedule list\n  skein schedule next --cron \"15 2 * * *\" --timezone Europe/Berlin",
	}
	needsVerb(cmd)
	cmd.AddCommand(c.scheduleListCmd(), c.scheduleNextCmd(), c.scheduleMissedCmd(), c.scheduleFiresCmd(), c.scheduleTriggerCmd(),
		c.scheduleSimulateCmd(), scheduleGetCmd(c), scheduleSeekCmd(c), scheduleSecretCmd(c),
		schedulePauseCmd(c, false), schedulePauseCmd(c, true))
	return cmd
}

// scheduleTable prints a list of triggers.
func (c *cli) scheduleTable(all []api.Schedule) error {
	return show(c, all, scheduleName, []column[api.Schedule]{
		{head: "TRIGGER", get: scheduleName},
		{head: "STATE", get: func(t api.Schedule) string { return c.state(t.State) }},
		{head: "NEXT", get: func(t api.Schedule) string { return c.due(t.Next) }},
		{head: "LAST", get: func(t api.Schedule) string { return c.lastOutcome(t.LastFire) }},
		{head: "FIRED", get: func(t api.Schedule) string { return fmt.Sprint(t.Fired) }},
		{head: "WHEN", get: scheduleWords},
	})
}

func scheduleName(t api.Schedule) string { return t.Workflow + "/" + t.Name }

// scheduleWords says when a trigger fires, or why it does not.
func scheduleWords(t api.Schedule) string {
	words := t.Description
	switch by, reason := text(t.PausedBy), text(t.Reason); {
	case by != "" && reason != "":
		words += fmt.Sprintf(" (%s by %s: %s)", t.State, by, reason)
	case by != "":
		words += fmt.Sprintf(" (%s by %s)", t.State, by)
	case reason != "":
		words += fmt.Sprintf(" (%s: %s)", t.State, reason)
	}
	if is := t.Source; is != nil && is.AwayAt != nil {
		words += fmt.Sprintf(" (its source is away since %s: %s)", is.AwayAt, text(is.Why))
	}
	return words + pausesWords(t)
}

func (c *cli) lastOutcome(f *api.Fire) string {
	if f == nil {
		return "-"
	}
	if !c.outTTY {
		return f.Outcome + " " + f.Last.String()
	}
	return c.state(f.Outcome) + " " + c.when(&f.Last)
}

// due formats a future time: relative to now on a terminal, and as RFC 3339 in a pipe.
func (c *cli) due(t *api.Time) string {
	switch {
	case t == nil || t.IsZero():
		return "-"
	case !c.outTTY:
		return t.String()
	}
	d := time.Until(t.Time)
	if d < 2*time.Second {
		return "now"
	}
	return "in " + strings.TrimSuffix(ago(d), " ago")
}

func (c *cli) scheduleListCmd() *cobra.Command {
	var q skein.SchedulesQuery
	cmd := &cobra.Command{
		Use: "list [WORKFLOW]", Aliases: []string{"ls"}, Short: "List triggers with their state, next instant and last outcome",
		Example: "  skein schedule list\n  skein schedule list nightly-orders\n  skein schedule list --state paused -o name",
		Args:    cobra.MaximumNArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			if len(args) > 0 {
				if _, err := s.Workflow(ctx, args[0]); err != nil {
					return noSuchWorkflow(err)
				}
				q.Workflow = args[0]
			}
			all, err := allSchedules(ctx, s, q)
			if err != nil {
				return err
			}
			return c.scheduleTable(all)
		})),
	}
	f := cmd.Flags()
	f.StringVar(&q.State, "state", "", "only in this state: active | paused | ended")
	f.StringVar(&q.Kind, "kind", "", "only triggers of this kind: cron, every, at, daily, …, webhook, file, run_of, again, absent, event, poll, query, object")
	f.StringVar(&q.Namespace, "namespace", "", "only of this namespace")
	f.BoolVar(&q.System, "system", false, systemHelp)
	c.emptyIsFine(cmd)
	return cmd
}

func allSchedules(ctx context.Context, s *session, q skein.SchedulesQuery) ([]api.Schedule, error) {
	all := []api.Schedule{}
	q.Limit = 1000
	for t, err := range s.EachSchedule(ctx, q) {
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// triggerRef is the meaning of WORKFLOW[/TRIGGER]. An empty trigger means all triggers of the workflow.
type triggerRef struct{ workflow, trigger string }

func (r triggerRef) String() string {
	if r.trigger == "" {
		return r.workflow
	}
	return r.workflow + "/" + r.trigger
}

// findTriggers resolves WORKFLOW[/TRIGGER]. In A/B, A is a workflow with a trigger B. If there is none, A is
// a namespace with a workflow B. A deleted trigger is not an error, because its ledger stays.
func findTriggers(ctx context.Context, s *session, arg string) (triggerRef, error) {
	parts := strings.Split(arg, "/")
	var r triggerRef
	switch len(parts) {
	case 1:
		r = triggerRef{workflow: arg}
	case 3:
		return triggerRef{parts[0] + "/" + parts[1], parts[2]}, nil
	case 2:
		_, err := s.Schedule(ctx, parts[0], parts[1])
		if err == nil {
			return triggerRef{parts[0], parts[1]}, nil
		}
		if !errors.Is(err, skein.ErrNotFound) {
			return r, err
		}
		if _, err := s.Workflow(ctx, parts[0]); err == nil {
			if _, err := s.Workflow(ctx, arg); err != nil {
				return triggerRef{parts[0], parts[1]}, nil
			}
		}
		r = triggerRef{workflow: arg}
	default:
		return r, usage("%s: use WORKFLOW or WORKFLOW/TRIGGER", arg)
	}
	_, err := s.Workflow(ctx, r.workflow)
	if errors.Is(err, skein.ErrNotFound) && len(parts) == 2 {
		err = &said{errNotFound, fmt.Sprintf("there is neither a workflow %s with a trigger %s nor a workflow %s", parts[0], parts[1], arg)}
	}
	return r, noSuchWorkflow(err)
}

// noSuchWorkflow adds to the error about a missing workflow the command that lists workflows.
func noSuchWorkflow(err error) error {
	if errors.Is(err, skein.ErrNotFound) || errors.Is(err, errNotFound) {
		return hint(err, "list workflows: skein workflow list; triggers: skein schedule list")
	}
	return err
}

// findTrigger finds the trigger that an argument names.
func findTrigger(ctx context.Context, s *session, arg string) (triggerRef, error) {
	r, err := findTriggers(ctx, s, arg)
	if err != nil || r.trigger != "" {
		return r, err
	}
	all, err := allSchedules(ctx, s, skein.SchedulesQuery{Workflow: r.workflow})
	switch {
	case err != nil:
		return r, err
	case len(all) == 0:
		return r, &said{errNotFound, "workflow " + r.workflow + " has no triggers"}
	case len(all) > 1:
		return r, hint(usage("%s has %d triggers: name one of them", r.workflow, len(all)), triggerNames(all))
	}
	return triggerRef{r.workflow, all[0].Name}, nil
}

const triggerNamesMax = 10

func triggerNames(all []api.Schedule) string {
	names := []string{}
	for i, t := range all {
		if i == triggerNamesMax {
			names = append(names, "…")
			break
		}
		names = append(names, scheduleName(t))
	}
	return "there are " + strings.Join(names, ", ")
}

// noSuchTrigger adds to the error about a missing trigger the name that the user may have meant.
func noSuchTrigger(ctx context.Context, s *session, r triggerRef, err error) error {
	if !errors.Is(err, skein.ErrNotFound) {
		return err
	}
	all, err2 := allSchedules(ctx, s, skein.SchedulesQuery{Workflow: r.workflow})
	if err2 != nil || len(all) == 0 {
		return hint(err, "list triggers: skein schedule list")
	}
	return hint(err, triggerNames(all))
}

// fireFlags are the flags of `skein schedule trigger`.
type fireFlags struct {
	reason, key    string
	follow, detach bool
	timeout        time.Duration
}

func (c *cli) scheduleTriggerCmd() *cobra.Command {
	f := &fireFlags{}
	cmd := &cobra.Command{
		Use: "trigger WORKFLOW/TRIGGER", Short: "Fire a trigger now, by hand",
		Long: `Fires a trigger now, with its parameters and its rules, also if it is paused, and waits for the end of the run.
If a rule of the trigger forbids the run, the fire is recorded as skipped and starts no run (exit 11).
` + triggerRefHelp,
		Example: "  skein schedule trigger nightly-orders/nightly --follow\n  skein schedule trigger nightly-orders --detach -o name",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error {
			if f.detach && f.follow {
				return usage("--detach and --follow exclude each other")
			}
			return c.fire(ctx, args[0], f)
		}),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.reason, "reason", "", "reason, for the ledger")
	fl.StringVar(&f.key, "key", "", "idempotency key: the same key fires only once")
	fl.BoolVarP(&f.detach, "detach", "d", false, "return as soon as the fire is recorded")
	fl.BoolVarP(&f.follow, "follow", "f", false, "show the output of the tasks on stderr")
	fl.DurationVar(&f.timeout, "timeout", 0, "stop waiting after this time (exit 8); the run continues")
	return cmd
}

// fire implements `skein schedule trigger`.
func (c *cli) fire(ctx context.Context, arg string, f *fireFlags) error {
	w := c.newWaiter(f.follow)
	defer w.stopSignals()
	w.hold = f.detach
	ctx, stop := w.within(ctx, f.timeout)
	defer stop()
	if f.key == "" {
		f.key = uuid.NewString() // so that a request whose answer was lost can be sent again
	}
	var came api.Occurrence
	err := w.withServer(ctx, func(s *session) error {
		r, err := findTrigger(ctx, s, arg)
		if err != nil {
			return err
		}
		came, err = s.FireSchedule(ctx, r.workflow, r.trigger, f.reason, skein.Key(f.key))
		if err == nil {
			w.contact()
		}
		return noSuchTrigger(ctx, s, r, err)
	})
	if err != nil {
		w.leave(ctx)
		return err
	}
	if came.Run == nil {
		defer w.leave(ctx)
		c.say("%s/%s: %s, %s", came.Workflow, came.Trigger, came.Outcome, text(came.Reason))
		if err := one(c, came, "", func() error { return nil }); err != nil {
			return err
		}
		return &errEnd{exitRunStopped}
	}
	if f.detach {
		var run api.Run
		err := w.withServer(ctx, func(s *session) (err error) {
			run, err = s.Run(ctx, *came.Run)
			return err
		})
		if err != nil {
			w.leave(ctx)
			return err
		}
		return c.detached(ctx, w, &run)
	}
	if !w.screen.moves {
		c.say("run %s of %s, by trigger %s", *came.Run, came.Workflow, came.Trigger)
	}
	return w.await(ctx, *came.Run)
}
