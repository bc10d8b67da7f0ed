package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func eventCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "event", Short: "Send events, for which triggers with the key event start runs",
		Example: "  skein event send order.created --source shop --data '{\"amount\": 12}'",
	}
	needsVerb(cmd)
	cmd.AddCommand(eventSendCmd(c))
	return cmd
}

// eventFlags are the flags of `skein event send`.
type eventFlags struct {
	namespace, source, id, subject, data string
}

func eventSendCmd(c *cli) *cobra.Command {
	f := &eventFlags{}
	cmd := &cobra.Command{
		Use: "send TYPE", Short: "Send an event",
		Long: `Sends an event of CloudEvents 1.0. When the command returns, the event is durable. Each trigger with the key event whose type, source
and filter suit starts one run for it. An event with the same source and id as an earlier one is not taken again.`,
		Example: "  skein event send order.created --source shop --data '{\"amount\": 12}'\n  skein event send file.ready --id 2027-01-01 --data @ready.json",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			ev, err := f.event(c.in, args[0])
			if err != nil {
				return err
			}
			sent, err := skein.NewEvents(s.Client).Send(ctx, f.namespace, ev)
			if err != nil {
				return err
			}
			return show(c, sent.Events, func(e api.EventSent) string { return e.Source + " " + e.ID }, []column[api.EventSent]{
				{head: "SOURCE", get: func(e api.EventSent) string { return e.Source }},
				{head: "ID", get: func(e api.EventSent) string { return e.ID }},
				{head: "POSITION", get: func(e api.EventSent) string { return fmt.Sprint(e.Position) }},
				{head: "EXISTING", get: func(e api.EventSent) string { return fmt.Sprint(e.Existing) }},
			})
		})),
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.namespace, "namespace", "n", "", "namespace whose workflows get the event (default: default)")
	fl.StringVar(&f.source, "source", "skein-cli", "where it happened: a name or a URI")
	fl.StringVar(&f.id, "id", "", "id of the event, unique for its source (default: a new one)")
	fl.StringVar(&f.subject, "subject", "", "what it is about")
	fl.StringVar(&f.data, "data", "", "its data: JSON, or @FILE (@- is the standard input)")
	notSettings(fl, "namespace", "source", "id", "subject", "data")
	return cmd
}

// event makes an event from the flags.
func (f *eventFlags) event(in *os.File, kind string) (json.RawMessage, error) {
	if f.id == "" {
		f.id = uuid.NewString()
	}
	ev := map[string]any{"specversion": "1.0", "id": f.id, "source": f.source, "type": kind, "time": time.Now().UTC().Format(time.RFC3339Nano)}
	if f.subject != "" {
		ev["subject"] = f.subject
	}
	data, err := bodyOf(in, f.data)
	if err != nil {
		return nil, err
	}
	switch {
	case len(data) == 0:
	case json.Valid(data):
		ev["datacontenttype"], ev["data"] = "application/json", data
	default:
		return nil, usage("--data is not JSON; write a text in quotes, as in --data '\"done\"'")
	}
	return json.Marshal(ev)
}

func scheduleSeekCmd(c *cli) *cobra.Command {
	to := ""
	cmd := &cobra.Command{
		Use: "seek WORKFLOW/TRIGGER", Short: "Move the cursor of a trigger: where its source continues to read",
		Long: `Moves the cursor of a trigger of kind event, poll, query, object, kafka, nats, redis or source. The trigger then reads the events after that position.
An event that has started a run does not start another one while skein schedule fires still lists it.
` + triggerRefHelp,
		Example: "  skein schedule seek orders/event-order.created --to beginning\n  skein schedule seek orders/event-order.created --to 2027-01-01T06:00:00Z",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			if to == "" {
				return usage("--to is missing: beginning, now, a cursor, or for a trigger of kind event, kafka, nats, redis or source an instant")
			}
			r, err := findTrigger(ctx, s, args[0])
			if err != nil {
				return err
			}
			t, err := skein.NewEvents(s.Client).Seek(ctx, r.workflow, r.trigger, to)
			if err != nil {
				return noSuchTrigger(ctx, s, r, err)
			}
			return c.scheduleTable([]api.Schedule{t})
		})),
	}
	cmd.Flags().StringVar(&to, "to", "", "beginning | now | CURSOR; for a trigger of kind event, kafka, nats, redis or source also an instant")
	notSettings(cmd.Flags(), "to")
	return cmd
}

// scheduleGetCmd shows one trigger.
func scheduleGetCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "get WORKFLOW/TRIGGER", Short: "Show one trigger, and how far its source has come",
		Long:    "Shows one trigger. For a trigger with a cursor: the cursor, and the number of events that wait to be read.\n" + triggerRefHelp,
		Example: "  skein schedule get orders/event-order.created",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			r, err := findTrigger(ctx, s, args[0])
			if err != nil {
				return err
			}
			t, err := s.Schedule(ctx, r.workflow, r.trigger)
			if err != nil {
				return noSuchTrigger(ctx, s, r, err)
			}
			return one(c, t, scheduleName(t), func() error {
				if err := c.scheduleTable([]api.Schedule{t}); err != nil || t.Source == nil {
					return err
				}
				return sourceTable(c, t.Source)
			})
		})),
	}
}

// sourceTable shows the position of a trigger's source, and its state.
func sourceTable(c *cli, is *api.ScheduleSource) error {
	lag := "-"
	if is.Lag != nil {
		lag = fmt.Sprint(*is.Lag)
	}
	return show(c, []api.ScheduleSource{*is}, func(api.ScheduleSource) string { return "" }, []column[api.ScheduleSource]{
		{head: "CURSOR", get: func(s api.ScheduleSource) string {
			return orDash(cut(strings.ToValidUTF8(text(s.Cursor)[:min(len(text(s.Cursor)), 4*cursorShown)], ""), cursorShown))
		}},
		{head: "LAG", get: func(api.ScheduleSource) string { return lag }},
		{head: "TAKEN", get: func(s api.ScheduleSource) string { return c.when(s.TakenAt) }},
		{head: "FILTERED", get: func(s api.ScheduleSource) string { return fmt.Sprint(s.Filtered) }},
		{head: "LOST", get: func(s api.ScheduleSource) string { return fmt.Sprint(s.Lost) }},
		{head: "AWAY", get: func(s api.ScheduleSource) string { return c.when(s.AwayAt) }},
		{head: "WHY", get: func(s api.ScheduleSource) string { return orDash(text(s.Why)) }},
	})
}

// cursorShown bounds the characters of a cursor in a table. A cursor of poll or object can have 16 KiB.
const cursorShown = 60
