package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

func TestExpand(t *testing.T) {
	day := func(text string) time.Time { return at(t, text).Time() }
	daily := decl(workflow.KindDaily, func(d *workflow.Trigger) {
		d.Name, d.At, d.Priority, d.Params = "nightly", []string{"02:00"}, "high", json.RawMessage(`{"a":1,"b":2}`)
	})
	now := at(t, "2026-02-01T00:00:00Z")
	lookup := func(_ context.Context, at dag.Micros) (Standing, error) {
		return []Standing{StandingNone, StandingActive, StandingGood, StandingFailed}[moment(at).Day()%4], nil
	}
	list := func(texts ...string) []dag.Micros {
		var all []dag.Micros
		for _, s := range texts {
			all = append(all, at(t, s))
		}
		return all
	}
	ranged := BackfillSpec{Trigger: "nightly", From: day("2026-01-01T02:00:00Z"), To: day("2026-01-08T02:00:00Z")}
	for _, c := range []struct {
		name   string
		change func(*BackfillSpec)
		want   []dag.Micros
	}{
		{"both ends", func(s *BackfillSpec) { s.To = day("2026-01-03T02:00:00Z") },
			list("2026-01-01T02:00:00Z", "2026-01-02T02:00:00Z", "2026-01-03T02:00:00Z")},
		{"descending", func(s *BackfillSpec) { s.From, s.Descending = day("2026-01-06T02:00:01Z"), true },
			list("2026-01-08T02:00:00Z", "2026-01-07T02:00:00Z")},
		{"failed", func(s *BackfillSpec) { s.Only = OnlyFailed }, list("2026-01-03T02:00:00Z", "2026-01-07T02:00:00Z")},
		{"missing", func(s *BackfillSpec) { s.Only = OnlyMissing }, list("2026-01-04T02:00:00Z", "2026-01-08T02:00:00Z")},
		{"either", func(s *BackfillSpec) { s.Only = OnlyFailedOrMissing },
			list("2026-01-03T02:00:00Z", "2026-01-04T02:00:00Z", "2026-01-07T02:00:00Z", "2026-01-08T02:00:00Z")},
		{"not what is to come", func(s *BackfillSpec) {
			s.From, s.To, s.Only = day("2026-01-31T00:00:00Z"), day("2027-01-01T00:00:00Z"), "all"
		},
			list("2026-01-31T02:00:00Z")},
		{"a list", func(s *BackfillSpec) {
			*s = BackfillSpec{Instants: list("2026-01-05T07:00:00Z", "2026-01-01T09:30:00Z", "2026-01-05T07:00:00Z")}
		}, list("2026-01-01T09:30:00Z", "2026-01-05T07:00:00Z")},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := ranged
			c.change(&spec)
			var with *workflow.Trigger
			if spec.Trigger != "" {
				with = daily
			}
			b, err := Expand(t.Context(), spec, with, now, lookup)
			if err != nil {
				t.Fatal(err)
			}
			got, err := dag.UnpackInstants(b.Instants, 0, 0)
			if err != nil || !slices.Equal(got, c.want) || b.Total != int64(len(got)) || b.Parallel != 1 {
				t.Errorf("%+v: %v %v", b, got, err)
			}
		})
	}
	spec := ranged
	spec.Params, spec.Parallel = json.RawMessage(`{"b":"x"}`), 3
	b, err := Expand(t.Context(), spec, daily, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"trigger":"nightly","from":"2026-01-01T02:00:00Z","to":"2026-01-08T02:00:00Z","parallel":3,"params":{"a":1,"b":"x"},"priority":"high"}`
	if string(b.Spec) != want {
		t.Errorf("%s", b.Spec)
	}
	p := New(noDefinitions{})
	if pol, err := p.BackfillPolicy(&b); err != nil || pol.Priority != dag.High || string(pol.Params) != `{"a":1,"b":"x"}` {
		t.Errorf("%+v %v", pol, err)
	}
	if _, err := p.BackfillPolicy(&store.Backfill{ID: 7, Spec: []byte("{")}); err == nil || !strings.Contains(err.Error(), "backfill 7") {
		t.Error(err)
	}
}

func TestExpandRefuses(t *testing.T) {
	now := at(t, "2026-02-01T00:00:00Z")
	minutes := cronDecl("* * * * *", nil)
	hook := decl(workflow.KindWebhook, func(d *workflow.Trigger) { d.Webhook = &workflow.Webhook{} })
	yearBefore := now.Time().AddDate(-1, 0, 0)
	all := func(context.Context, dag.Micros) (Standing, error) { return StandingGood, nil }
	broken := func(context.Context, dag.Micros) (Standing, error) { return 0, store.ErrUnavailable }
	hourBefore := now.Time().Add(-time.Hour)
	for _, c := range []struct {
		spec   BackfillSpec
		decl   *workflow.Trigger
		lookup Lookup
		want   string
	}{
		{BackfillSpec{Trigger: "t", From: yearBefore, To: now.Time()}, minutes, nil, "the range has 525601 instants; a backfill has at most 100000"},
		{BackfillSpec{Instants: make([]dag.Micros, dag.InstantsMax+1)}, nil, nil, "100001 instants are given"},
		{BackfillSpec{}, nil, nil, "a range, from and to, or a list"},
		{BackfillSpec{Instants: []dag.Micros{1}, From: yearBefore, To: yearBefore}, minutes, nil, "a range, from and to, or a list"},
		{BackfillSpec{From: yearBefore, To: yearBefore}, nil, nil, "needs a trigger"},
		{BackfillSpec{From: yearBefore}, minutes, nil, "both from and to"},
		{BackfillSpec{From: now.Time(), To: yearBefore}, minutes, nil, "ends (2025-02-01T00:00:00Z) before it begins"},
		{BackfillSpec{From: yearBefore, To: now.Time()}, hook, nil, "follows from events"},
		{BackfillSpec{Instants: []dag.Micros{now + 1}}, nil, nil, "in the future"},
		{BackfillSpec{Instants: []dag.Micros{-1}}, nil, nil, "before 1970"},
		{BackfillSpec{Instants: []dag.Micros{1}, Parallel: -1}, nil, nil, "parallel is -1"},
		{BackfillSpec{Instants: []dag.Micros{1}, Only: "some"}, nil, nil, `only is "some"`},
		{BackfillSpec{Instants: []dag.Micros{1}, Priority: "urgent"}, nil, nil, `no priority "urgent"`},
		{BackfillSpec{From: hourBefore, To: now.Time(), Only: OnlyFailed}, minutes, all, "none of them failed"},
		{BackfillSpec{From: now.Time().Add(time.Hour), To: now.Time().Add(2 * time.Hour)}, minutes, nil, "the range begins in the future; the trigger itself fires those instants"},
		{BackfillSpec{From: hourBefore, To: now.Time(), Only: OnlyMissing}, minutes, all, "each has a run"},
		{BackfillSpec{From: hourBefore, To: now.Time(), Params: json.RawMessage(`[]`)}, minutes, nil, "not a JSON object"},
	} {
		_, err := Expand(t.Context(), c.spec, c.decl, now, c.lookup)
		kind := errkind.ErrInvalid
		if c.lookup != nil && c.spec.Only != "" { // the specification is valid, but no instant is left
			kind = errkind.ErrNothing
		}
		if !errors.Is(err, kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.want, err)
		}
	}
	if _, err := Expand(t.Context(), BackfillSpec{Instants: []dag.Micros{1}, Only: OnlyFailed}, nil, now, broken); !errors.Is(err, store.ErrUnavailable) {
		t.Error(err)
	}
}
