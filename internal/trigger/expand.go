package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// Values of Only, which selects the instants of a backfill.
const (
	OnlyFailed          = "failed"  // the newest run did not succeed
	OnlyMissing         = "missing" // only instants without a run
	OnlyFailedOrMissing = "failed_or_missing"
	onlyAll             = "all" // the same as ""
)

// parallelMax bounds the runs of a backfill that may be active.
const parallelMax = 10_000

// BackfillSpec is a person's request for a backfill. The row of the backfill has it as JSON.
type BackfillSpec struct {
	Trigger string `json:"trigger,omitempty"` // the trigger whose instants are started; "" if Instants lists the instants
	// From and To are both included. The trigger itself starts instants in the future.
	From       time.Time       `json:"from,omitzero"`
	To         time.Time       `json:"to,omitzero"`
	Instants   []dag.Micros    `json:"-"`                // a list of instants instead of a range; packed in the row
	Listed     int             `json:"listed,omitempty"` // number of given instants
	Descending bool            `json:"descending,omitempty"`
	Only       string          `json:"only,omitempty"`
	Parallel   int32           `json:"parallel"` // limit of active runs; 0 means 1
	Params     json.RawMessage `json:"params,omitempty"`
	Priority   string          `json:"priority,omitempty"` // "" means the trigger's
}

// Standing is the result of an instant so far.
type Standing uint8

// The standings.
const (
	StandingNone   Standing = iota // the instant has no run
	StandingActive                 // the newest run has not ended
	StandingGood                   // the newest run succeeded
	StandingFailed                 // the newest run ended without success
)

// Lookup returns the result of an instant so far.
type Lookup func(ctx context.Context, at dag.Micros) (Standing, error)

// Expand makes a backfill from a request. It sets Trigger, Spec, Instants, Total and Parallel of the row.
// decl is the trigger that spec names, or nil. Expand calls lookup only if spec.Only is set. If the request
// is impossible, the error wraps errkind.ErrInvalid and its text says why.
func Expand(ctx context.Context, spec BackfillSpec, decl *workflow.Trigger, now dag.Micros, lookup Lookup) (store.Backfill, error) {
	none := store.Backfill{}
	if spec.Parallel == 0 {
		spec.Parallel = 1
	}
	if spec.Only == onlyAll {
		spec.Only = ""
	}
	if err := spec.check(decl); err != nil {
		return none, err
	}
	list, err := spec.list(decl, now)
	if err != nil {
		return none, err
	}
	if spec.Only != "" {
		if list, err = only(ctx, list, spec.Only, lookup); err != nil {
			return none, err
		}
	}
	if len(list) == 0 && spec.Only != "" {
		return none, fmt.Errorf("%w%s", errkind.ErrNothing, why(spec, decl))
	}
	if len(list) == 0 {
		return none, invalid("no instant is left for which a run could start%s", why(spec, decl))
	}
	if spec.Descending {
		slices.Reverse(list)
	}
	if decl != nil {
		if spec.Priority == "" {
			spec.Priority = decl.Priority
		}
		if spec.Params, err = merged(decl.Params, spec.Params); err != nil {
			return none, err
		}
	}
	return store.Backfill{Trigger: spec.Trigger, Spec: encode(spec), Instants: dag.PackInstants(list),
		Total: int64(len(list)), Parallel: spec.Parallel}, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errkind.ErrInvalid}, args...)...)
}

func why(spec BackfillSpec, decl *workflow.Trigger) string {
	switch {
	case spec.From.After(spec.To): // From is in the future, because To is at most the present
		return ": the range begins in the future; the trigger itself fires those instants"
	case spec.Only == OnlyFailed:
		return ": none of them failed"
	case spec.Only == OnlyMissing:
		return ": each has a run"
	case spec.Only == OnlyFailedOrMissing:
		return ": each has a run that did not fail"
	case decl != nil && decl.Start != "":
		return ": the trigger has none in this range; it starts " + decl.Start
	}
	return ": the trigger has none in this range"
}

func (spec *BackfillSpec) check(decl *workflow.Trigger) error {
	_, known := dag.ParsePriority(spec.Priority)
	ranged := !spec.From.IsZero() || !spec.To.IsZero()
	switch {
	case ranged == (len(spec.Instants) > 0):
		return invalid("a backfill has a range, from and to, or a list of instants")
	case ranged && decl == nil:
		return invalid("a range needs a trigger with instants in it")
	case ranged && (spec.From.IsZero() || spec.To.IsZero()):
		return invalid("a range needs both from and to")
	case ranged && spec.To.Before(spec.From):
		return invalid("the range ends (%s) before it begins (%s)", stamp(spec.To), stamp(spec.From))
	case len(spec.Instants) > dag.InstantsMax:
		return invalid("%d instants are given; a backfill has at most %d", len(spec.Instants), dag.InstantsMax)
	case spec.Parallel < 1 || spec.Parallel > parallelMax:
		return invalid("parallel is %d; it must be 1 to %d", spec.Parallel, parallelMax)
	case spec.Only != "" && !slices.Contains([]string{OnlyFailed, OnlyMissing, OnlyFailedOrMissing}, spec.Only):
		return invalid("only is %q; it must be %s, %s or %s", spec.Only, OnlyFailed, OnlyMissing, OnlyFailedOrMissing)
	case !known:
		return invalid("there is no priority %q", spec.Priority)
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// list returns the instants in rising order without duplicates.
func (spec *BackfillSpec) list(decl *workflow.Trigger, now dag.Micros) ([]dag.Micros, error) {
	if len(spec.Instants) > 0 {
		list := slices.Clone(spec.Instants)
		slices.Sort(list)
		list = slices.Compact(list)
		spec.Listed = len(list)
		switch {
		case list[0] <= 0:
			return nil, invalid("an instant is before 1970")
		case list[len(list)-1] > now:
			return nil, invalid("%s is in the future; a backfill has only instants of the past", clock(list[len(list)-1]))
		}
		return list, nil
	}
	when, err := decl.Schedule()
	if err != nil {
		return nil, fmt.Errorf("trigger %s: %w", decl.Name, err)
	}
	if when == nil {
		return nil, invalid("trigger %s has no instants: %s follows from events; give a list of instants", decl.Name, decl.Kind)
	}
	spec.From, spec.To = spec.From.UTC().Truncate(time.Microsecond), spec.To.UTC().Truncate(time.Microsecond)
	if spec.To.After(moment(now)) {
		spec.To = moment(now)
	}
	d := declared{Trigger: decl, when: when}
	after, until := dag.Micros(spec.From.UnixMicro())-1, dag.Micros(spec.To.UnixMicro())
	n := d.count(after, until)
	if n > dag.InstantsMax {
		return nil, invalid("the range has %d instants; a backfill has at most %d: make several backfills", n, dag.InstantsMax)
	}
	list := make([]dag.Micros, 0, n)
	for at := d.next(after); at != 0 && at <= until; at = d.next(at) {
		list = append(list, at)
	}
	return list, nil
}

func only(ctx context.Context, list []dag.Micros, which string, lookup Lookup) ([]dag.Micros, error) {
	keep := list[:0]
	for _, at := range list {
		is, err := lookup(ctx, at)
		if err != nil {
			return nil, fmt.Errorf("result of %s: %w", clock(at), err)
		}
		if is == StandingFailed && which != OnlyMissing || is == StandingNone && which != OnlyFailed {
			keep = append(keep, at)
		}
	}
	return keep, nil
}

// merged returns the JSON object a, overwritten with the fields of the object b.
func merged(a, b json.RawMessage) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for _, o := range []json.RawMessage{a, b} {
		if len(o) == 0 {
			continue
		}
		if err := json.Unmarshal(o, &all); err != nil {
			return nil, invalid("the parameters are not a JSON object: %v", err)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return encode(all), nil
}

// DecodeBackfill decodes a Spec that Expand has made, without the instants, which are packed in the row.
func DecodeBackfill(spec []byte) (BackfillSpec, error) {
	var s BackfillSpec
	if err := json.Unmarshal(spec, &s); err != nil {
		return s, fmt.Errorf("decode backfill: %w", err)
	}
	return s, nil
}

// BackfillPolicy returns the priority and the parameters of a backfill's runs.
func (p *Planner) BackfillPolicy(b *store.Backfill) (engine.Policy, error) {
	s, err := DecodeBackfill(b.Spec)
	if err != nil {
		return engine.Policy{}, fmt.Errorf("backfill %d: %w", b.ID, err)
	}
	priority, ok := dag.ParsePriority(s.Priority)
	if !ok {
		return engine.Policy{}, fmt.Errorf("backfill %d: there is no priority %q", b.ID, s.Priority)
	}
	return engine.Policy{Priority: priority, Params: s.Params}, nil
}
