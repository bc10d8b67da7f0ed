package main

import (
	"bufio"
	"bytes"
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

const (
	// surelyMax bounds the runs that one command starts without asking.
	surelyMax = 1_000
	// listedMax bounds the instants on the command line. A server accepts no more.
	listedMax = 100_000
)

// backfillFlags are the flags of `skein backfill create`.
type backfillFlags struct {
	trigger, from, to, zone string
	at                      []string
	file                    string
	order, only, priority   string
	parallel                int32
	params                  []string
	key                     string
	dryRun, wait, yes       bool
	timeout                 time.Duration
}

func (c *cli) backfillCreateCmd() *cobra.Command {
	f := &backfillFlags{}
	cmd := &cobra.Command{
		Use: "create WORKFLOW", Short: "Start runs for past instants",
		Long: `Starts a run for each instant of a trigger in a range (both ends included), or for each instant of a list. Each
run sees its instant as trigger.time, so a parameter such as date(trigger.time) has the value of that day. A
backfill starts exactly one run for each instant, even if the server fails meanwhile. Future instants are left
to the trigger.
` + momentHelp + `
Dates are in --timezone, by default that of the trigger.`,
		Example: `  skein backfill create nightly-orders --from 2027-03-01 --to 2027-03-31 --dry-run
  skein backfill create nightly-orders --from -30d --to now --parallel 4 --only failed-or-missing --wait
  skein backfill create report --at 2027-03-01T06:00:00Z --at 2027-03-05T06:00:00Z -p region=eu
  skein backfill create report --file days.txt --order desc`,
		Args: cobra.ExactArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error { return c.createBackfill(ctx, args[0], f) }),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.trigger, "trigger", "", "trigger whose instants are used (default: the workflow's only schedule)")
	fl.StringVar(&f.from, "from", "", "first instant T of the range")
	fl.StringVar(&f.to, "to", "", "last instant T of the range; a date includes its whole day")
	fl.StringArrayVar(&f.at, "at", nil, "an instant T instead of a range; may be repeated")
	fl.StringVar(&f.file, "file", "", "file with one instant T per line; # begins a comment; - is standard input")
	fl.StringVar(&f.zone, "timezone", "", "time zone of dates")
	fl.StringVar(&f.order, "order", "asc", "asc | desc")
	fl.Int32Var(&f.parallel, "parallel", 1, "largest number of concurrent runs of the backfill")
	fl.StringVar(&f.only, "only", "", "failed | missing | failed-or-missing: only instants whose newest run did not succeed, instants without a run, or both")
	fl.StringArrayVarP(&f.params, "param", "p", nil, "parameter, as name=value, instead of the trigger's value; may be repeated")
	fl.StringVar(&f.priority, "priority", "", "highest | high | medium | low | lowest (default: that of the trigger)")
	fl.StringVar(&f.key, "key", "", "idempotency key: the same key starts only one backfill")
	fl.BoolVar(&f.dryRun, "dry-run", false, "show the selected runs, and change nothing that would start")
	fl.BoolVar(&f.wait, "wait", false, "wait for the end: exit 10 if a run did not succeed, 11 if it was cancelled")
	fl.DurationVar(&f.timeout, "timeout", 0, "with --wait: stop waiting after this time (exit 8); the backfill continues")
	fl.BoolVar(&f.yes, "yes", false, fmt.Sprintf("do not ask before more than %d runs start", surelyMax))
	return cmd
}

// request checks the parts of the command line that need no server. The instants are filled in later.
func (f *backfillFlags) request(workflow string) (api.BackfillRequest, error) {
	req := api.BackfillRequest{Workflow: workflow, Trigger: f.trigger, Parallel: f.parallel, Priority: f.priority}
	switch f.order {
	case "asc", "ascending":
		req.Order = "ascending"
	case "desc", "descending":
		req.Order = "descending"
	default:
		return req, usage("--order %s: use asc or desc", f.order)
	}
	switch req.Only = strings.ReplaceAll(f.only, "-", "_"); req.Only {
	case "", "all", "failed", "missing", "failed_or_missing":
	default:
		return req, usage("--only %s: use failed, missing or failed-or-missing", f.only)
	}
	ranged, listed := f.from != "" || f.to != "", len(f.at) > 0 || f.file != ""
	switch {
	case f.parallel < 1:
		return req, usage("--parallel %d: use 1 or more", f.parallel)
	case ranged == listed:
		return req, usage("no instants are given: give a range by --from T --to T, or single instants by --at T or --file LIST")
	case ranged && (f.from == "" || f.to == ""):
		return req, usage("a range needs both --from and --to")
	case f.dryRun && f.wait:
		return req, usage("--dry-run starts no run, so --wait cannot be combined with it")
	}
	return req, nil
}

// fill puts the instants into a request. Dates are days in a time zone, which only the trigger may know.
func (f *backfillFlags) fill(req *api.BackfillRequest, zone string) error {
	when, err := momentsIn(zone)
	if err != nil {
		return err
	}
	if f.from != "" {
		from, err := when.from("--from", f.from)
		if err != nil {
			return err
		}
		to, err := when.until("--to", f.to)
		if err != nil {
			return err
		}
		req.From, req.To = &api.Time{Time: from}, &api.Time{Time: to}
		return nil
	}
	req.Instants = []api.Time{}
	for _, at := range f.at {
		t, err := when.from("--at", at)
		if err != nil {
			return err
		}
		req.Instants = append(req.Instants, api.Time{Time: t})
	}
	if f.file == "" {
		return nil
	}
	more, err := instantFile(f.file, when)
	req.Instants = append(req.Instants, more...)
	if err == nil && len(req.Instants) == 0 {
		err = &said{errInvalid, f.file + " has no instants"}
	}
	return err
}

// instantFile reads a file with an instant in each line.
func instantFile(path string, when moments) ([]api.Time, error) {
	src, err := readSource(path)
	if err != nil {
		return nil, err
	}
	var all []api.Time
	lines := bufio.NewScanner(bytes.NewReader(src))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		t, err := when.from("", line)
		if err != nil {
			return nil, hint(&said{errInvalid, fmt.Sprintf("%s:%d:1: %q is not an instant", path, n, line)}, "write 2027-03-28T02:30:00Z, or a date such as 2027-03-28")
		}
		if all = append(all, api.Time{Time: t}); len(all) > listedMax {
			return nil, hint(&said{errInvalid, fmt.Sprintf("%s has more than %d instants", path, listedMax)}, "make several backfills")
		}
	}
	if err := lines.Err(); err != nil {
		return nil, &said{errInvalid, fmt.Sprintf("%s: %v", path, err)}
	}
	return all, nil
}

// createBackfill implements `skein backfill create`.
func (c *cli) createBackfill(ctx context.Context, workflow string, f *backfillFlags) error {
	req, err := f.request(workflow)
	if err != nil {
		return err
	}
	given, err := splitPairs("-p", f.params)
	if err != nil {
		return err
	}
	w := c.newWaiter(false)
	defer w.stopSignals()
	w.own, w.hold = false, !f.wait
	ctx, stop := w.within(ctx, f.timeout)
	defer stop()
	if f.key == "" {
		f.key = uuid.NewString() // so that a request whose answer was lost can be sent again
	}
	var b api.Backfill
	err = w.withServer(ctx, func(s *session) error {
		if err := f.prepare(ctx, s, &req, given); err != nil {
			return err
		}
		b, err = c.sendBackfill(ctx, s, req, f)
		if err == nil {
			w.contact()
		}
		return err
	})
	var refused *skein.Error
	switch {
	// this is not a failure, because a script may run the command every night
	case errors.As(err, &refused) && refused.Problem.Type == api.ProblemNothing:
		c.say("%s", refused.Problem.Detail)
		err = nil
	case err != nil:
	case f.dryRun:
		err = one(c, b, backfillName(b), func() error { return c.plan(&b) })
	case f.wait:
		if !w.screen.moves {
			c.say("backfill %d of %s: %s", b.ID, b.Workflow, count(int(b.Total), "run"))
		}
		return w.awaitBackfill(ctx, b.ID)
	default:
		c.say("accepted; watch it: skein backfill watch %d", b.ID)
		err = one(c, b, backfillName(b), func() error { return c.backfillTable([]api.Backfill{b}) })
	}
	w.leave(ctx)
	return err
}

// prepare reads from the server the values that the request needs: the zone of the trigger and the types of
// parameters.
func (f *backfillFlags) prepare(ctx context.Context, s *session, req *api.BackfillRequest, given map[string]string) error {
	wf, err := s.Workflow(ctx, req.Workflow)
	if err != nil {
		return noSuchWorkflow(err)
	}
	if len(given) > 0 {
		req.Params = typed(given, wf.Params)
	}
	zone := f.zone
	if zone == "" {
		all, err := allSchedules(ctx, s, skein.SchedulesQuery{Workflow: req.Workflow})
		if err != nil {
			return err
		}
		zone = zoneOf(all, req.Trigger)
	}
	return f.fill(req, zone)
}

// zoneOf returns the zone of the named trigger, or of the only schedule. It returns "" if there is none.
func zoneOf(all []api.Schedule, trigger string) (zone string) {
	n := 0
	for _, t := range all {
		if t.Name == trigger || trigger == "" && !t.Sensor {
			zone = t.Timezone
			n++
		}
	}
	if n != 1 {
		return ""
	}
	return zone
}

// sendBackfill makes the backfill. If it has many runs, the command first counts them and asks for a
// confirmation.
func (c *cli) sendBackfill(ctx context.Context, s *session, req api.BackfillRequest, f *backfillFlags) (api.Backfill, error) {
	req.DryRun = true
	if f.dryRun || !f.yes {
		b, _, err := s.StartBackfill(ctx, req)
		if err != nil || f.dryRun {
			return b, noBackfill(ctx, s, &req, err)
		}
		if b.Total > surelyMax {
			if err := c.confirm(f.yes, fmt.Sprintf("start %d runs", b.Total)); err != nil {
				return b, err
			}
		}
	}
	req.DryRun = false
	b, _, err := s.StartBackfill(ctx, req, skein.Key(f.key))
	return b, noBackfill(ctx, s, &req, err)
}

// noBackfill adds to a refusal the name of the backfill that the user may have meant.
func noBackfill(ctx context.Context, s *session, req *api.BackfillRequest, err error) error {
	if errors.Is(err, skein.ErrNotFound) && req.Trigger != "" {
		return noSuchTrigger(ctx, s, triggerRef{req.Workflow, req.Trigger}, err)
	}
	return err
}

// plan shows a dry run.
func (c *cli) plan(b *api.Backfill) error {
	c.say("would start %s, %s, at most %d at once; nothing was started", count(int(b.Total), "run"), b.Order, b.Parallel)
	samples := b.Samples
	if int64(len(samples)) < b.Total {
		c.say("some of the instants:")
	}
	return show(c, samples, api.Time.String, []column[api.Time]{
		{head: "INSTANT", get: func(t api.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }, plain: api.Time.String}})
}
