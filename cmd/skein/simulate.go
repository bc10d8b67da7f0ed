package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "skein.dev/skein/sdk/api/v1"
)

// spanDefault is the span of a simulation without --to.
const spanDefault = 7 * 24 * time.Hour

// simulateFlags are the flags of `skein schedule simulate`.
type simulateFlags struct{ from, to, zone, with string }

func (c *cli) scheduleSimulateCmd() *cobra.Command {
	f := &simulateFlags{}
	cmd := &cobra.Command{
		Use: "simulate [WORKFLOW]", Short: "Simulate triggers over a period, and the effect of an edit",
		Long: `Simulates the triggers over a period, with the recent durations of runs. It shows how often each trigger fires,
where its runs overlap, the number of concurrent runs in each hour, the limits that are reached, and the effect
of clock changes. With --with FILE it compares two simulations: in the second one, the workflows of the file
replace those of the same name. The command changes nothing.
` + momentHelp,
		Example: `  skein schedule simulate --to +7d
  skein schedule simulate --from 2027-03-27 --to 2027-03-29 --timezone Europe/Berlin nightly-orders
  skein schedule simulate --to +30d --with nightly.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error {
			req, err := f.request(c.cfg.TasksMax)
			if err != nil {
				return err
			}
			return c.reading(func(ctx context.Context, s *session, args []string) error {
				if len(args) > 0 {
					req.Workflow = args[0]
				}
				sim, err := s.Simulate(ctx, req)
				if err != nil {
					return err
				}
				return one(c, sim, sim.From.String(), func() error { return c.simulation(&sim) })
			})(ctx, args)
		}),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.from, "from", "", "begin T of the period, included (default now)")
	fl.StringVar(&f.to, "to", "", "end T of the period, at most 366 days later; a date includes its whole day (default 7 days later)")
	fl.StringVar(&f.zone, "timezone", "", "time zone of dates T (default UTC)")
	fl.StringVar(&f.with, "with", "", "workflow file whose triggers are simulated")
	return cmd
}

func (f *simulateFlags) request(tasksMax int) (api.SimulateRequest, error) {
	var req api.SimulateRequest
	when, err := momentsIn(f.zone)
	if err != nil {
		return req, err
	}
	from, err := when.from("--from", f.from)
	if err != nil {
		return req, err
	}
	to, err := when.until("--to", f.to)
	if err != nil {
		return req, err
	}
	if to.IsZero() {
		to = when.now.Add(spanDefault)
		if !from.IsZero() {
			to = from.Add(spanDefault)
		}
	}
	req.To = api.Time{Time: to}
	if !from.IsZero() {
		req.From = &api.Time{Time: from}
	}
	if f.with == "" {
		return req, nil
	}
	defs, err := readDefinitions(f.with, tasksMax)
	if err != nil {
		return req, err
	}
	req.With = &api.ApplyRequest{File: f.with, Dir: defs[0].request.Dir}
	have := map[string]bool{}
	for _, d := range defs {
		req.With.Source += d.request.Source
		for _, file := range d.request.Files {
			if !have[file.Name] {
				have[file.Name] = true
				req.With.Files = append(req.With.Files, file)
			}
		}
	}
	return req, nil
}

// simulation shows a report. On a terminal it has several parts; in a pipe it has rows that begin with their
// kind.
func (c *cli) simulation(sim *api.Simulation) error {
	if !c.outTTY {
		return c.plainRows(simulationRows(sim))
	}
	fmt.Fprintf(c.out, "%s to %s: %s\n", minute(sim.From), minute(sim.To), count(int(sim.Fires), "fire"))
	for _, part := range []func(*api.Simulation) (string, [][]string){
		simulatedTriggers, simulatedChanges, simulatedHours, simulatedLimits, simulatedShifts} {
		head, rows := part(sim)
		if len(rows) < 2 {
			continue
		}
		fmt.Fprintf(c.out, "\n%s\n", c.paint(bold, head))
		for k := range rows[0] {
			rows[0][k] = c.paint(dim, rows[0][k])
		}
		if err := writeRows(c, rows); err != nil {
			return err
		}
	}
	if len(sim.Notes) > 0 {
		fmt.Fprintln(c.out)
	}
	for _, n := range sim.Notes {
		fmt.Fprintln(c.out, n)
	}
	return nil
}

func minute(t api.Time) string { return t.UTC().Format("2006-01-02 15:04Z") }

func minuteOr(t *api.Time) string {
	if t == nil {
		return "-"
	}
	return minute(*t)
}

func simulatedTriggers(sim *api.Simulation) (string, [][]string) {
	rows := [][]string{{"TRIGGER", "FIRES", "FIRST", "LAST", "OVERLAP", "SKIPPED", "WAIT", "TAKES", "WHEN"}}
	for _, t := range sim.Triggers {
		rows = append(rows, []string{t.Workflow + "/" + t.Trigger, fmt.Sprint(t.Fires), minuteOr(t.First), minuteOr(t.Last), fmt.Sprint(t.Overlaps),
			fmt.Sprint(t.Skipped), fmt.Sprint(t.Waiting), lasts(&t), t.Description})
	}
	return "Triggers", rows
}

// lasts formats the duration of the trigger's runs: the median, and the duration that one run in twenty
// exceeds.
func lasts(t *api.SimulatedTrigger) string {
	if t.Median == nil {
		return "?"
	}
	s := length(seconds(*t.Median))
	if t.P95 != nil {
		s += " to " + length(seconds(*t.P95))
	}
	return s
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// instantsShown bounds how many of the instants that an edit adds or removes are named.
const instantsShown = 5

func simulatedChanges(sim *api.Simulation) (string, [][]string) {
	rows := [][]string{{"TRIGGER", ""}}
	for _, ch := range sim.Changes {
		if ch.Change == "unchanged" {
			continue
		}
		rows = append(rows, []string{ch.Workflow + "/" + ch.Trigger, fmt.Sprintf("%s, %d → %d fires", ch.Change, ch.Fires[0], ch.Fires[1])},
			[]string{"", "was      " + textOr(ch.Before)}, []string{"", "becomes  " + textOr(ch.After)})
		if len(ch.Lost) > 0 {
			rows = append(rows, []string{"", "loses    " + someInstants(ch.Lost)})
		}
		if len(ch.Gained) > 0 {
			rows = append(rows, []string{"", "gains    " + someInstants(ch.Gained)})
		}
	}
	return "Changes by the edit", rows
}

func someInstants(all []api.Time) string {
	var texts []string
	for i, at := range all {
		if i == instantsShown {
			texts = append(texts, "…")
			break
		}
		texts = append(texts, minute(at))
	}
	return strings.Join(texts, ", ")
}

func textOr(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

const (
	hoursShown    = 48 // if there are more hours, the same hours of all days are combined
	hoursBarWidth = 30
)

// simulatedHours returns a bar chart of how many runs are active at the same time.
func simulatedHours(sim *api.Simulation) (string, [][]string) {
	head, form, hours := "Most runs at once, by hour (UTC)", "2006-01-02 15h", sim.Hours
	if len(hours) > hoursShown {
		head, form, hours = "Most runs at once, by hour of the day (UTC), over all days", "15h", folded(hours)
	}
	most := int64(1)
	for _, h := range hours {
		most = max(most, h.Active, h.Long)
	}
	rows := [][]string{{"HOUR", "FIRES", "RUNS", "P95", ""}}
	for _, h := range hours {
		full := int(h.Active * hoursBarWidth / most)
		long := max(int(h.Long*hoursBarWidth/most), full)
		rows = append(rows, []string{h.At.UTC().Format(form), fmt.Sprint(h.Fires), fmt.Sprint(h.Active), fmt.Sprint(h.Long),
			strings.Repeat("█", full) + strings.Repeat("░", long-full)})
	}
	return head, rows
}

// folded combines the same hours of all days: the sum of the fires, and the largest number of runs.
func folded(hours []api.SimulatedHour) []api.SimulatedHour {
	var day [24]*api.SimulatedHour
	for i := range hours {
		h := hours[i]
		n := h.At.UTC().Hour()
		if day[n] == nil {
			day[n] = &h
			continue
		}
		day[n].Fires += h.Fires
		day[n].Active, day[n].Long = max(day[n].Active, h.Active), max(day[n].Long, h.Long)
	}
	var all []api.SimulatedHour
	for _, h := range day {
		if h != nil {
			all = append(all, *h)
		}
	}
	return all
}

func simulatedLimits(sim *api.Simulation) (string, [][]string) {
	rows := [][]string{{"LIMIT", "HITS", "FIRST", "WHAT"}}
	for _, l := range sim.Limits {
		rows = append(rows, []string{l.Kind, fmt.Sprint(l.Hits), minuteOr(l.First), l.What})
	}
	return "Limits that are hit", rows
}

func simulatedShifts(sim *api.Simulation) (string, [][]string) {
	rows := [][]string{{"TRIGGER", "AT", "EFFECT"}}
	for _, sh := range sim.Shifts {
		rows = append(rows, []string{sh.Workflow + "/" + sh.Trigger, sh.Local, sh.Effect})
	}
	return "Clock changes", rows
}

// plainRows writes rows for a pipe. The rows may have different lengths.
func (c *cli) plainRows(rows [][]string) error {
	for _, row := range rows {
		cols := make([]column[[]string], len(row))
		for k := range row {
			cols[k] = column[[]string]{get: func(r []string) string { return r[k] }}
		}
		if err := showPlain(c.out, [][]string{row}, cols); err != nil {
			return err
		}
	}
	return nil
}

func simulationRows(sim *api.Simulation) [][]string {
	rows := [][]string{{"span", sim.From.String(), sim.To.String(), fmt.Sprint(sim.Fires)}}
	for _, t := range sim.Triggers {
		rows = append(rows, []string{"trigger", t.Workflow + "/" + t.Trigger, fmt.Sprint(t.Fires), stamp(t.First), stamp(t.Last),
			fmt.Sprint(t.Overlaps), fmt.Sprint(t.Skipped), fmt.Sprint(t.Waiting), lasts(&t), t.Description})
	}
	for _, ch := range sim.Changes {
		rows = append(rows, []string{"change", ch.Workflow + "/" + ch.Trigger, ch.Change, fmt.Sprint(ch.Fires[0]), fmt.Sprint(ch.Fires[1]),
			textOr(ch.Before), textOr(ch.After)})
	}
	for _, h := range sim.Hours {
		rows = append(rows, []string{"hour", h.At.String(), fmt.Sprint(h.Fires), fmt.Sprint(h.Active), fmt.Sprint(h.Long)})
	}
	for _, l := range sim.Limits {
		rows = append(rows, []string{"limit", l.Kind, fmt.Sprint(l.Limit), fmt.Sprint(l.Peak), fmt.Sprint(l.Hits), stamp(l.First), l.What})
	}
	for _, sh := range sim.Shifts {
		rows = append(rows, []string{"shift", sh.Workflow + "/" + sh.Trigger, sh.Local, sh.Effect})
	}
	for _, n := range sim.Notes {
		rows = append(rows, []string{"note", n})
	}
	return rows
}

func stamp(t *api.Time) string {
	if t == nil {
		return "-"
	}
	return t.String()
}
