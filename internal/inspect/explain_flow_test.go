package inspect_test

import (
	"fmt"
	"slices"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// TestIdle: the reasons why a trigger of a workflow does not fire come before the instants that are to come.
func TestIdle(t *testing.T) {
	w := store.Workflow{Namespace: "shop", Name: "w", State: store.WorkflowActive}
	ts := []store.Trigger{
		{Name: "night", State: store.TriggerActive, Next: 9},
		{Name: "hand", State: store.TriggerPaused, Actor: "ada", Reason: "lunch"},
		{Name: "feast", State: store.TriggerActive, Next: 8_000_000},
		{Name: "crm", State: store.TriggerActive, Kind: "poll"},
		{Name: "files", State: store.TriggerActive, Kind: "object"}, // this trigger reaches its store, and waits for a file
		{Name: "once", State: store.TriggerEnded, Reason: "no further instant"},
	}
	away := func(t *store.Trigger) (dag.Micros, string) {
		if t.Name == "crm" {
			return 5, "connection refused"
		}
		return 0, ""
	}
	pause := func(t *store.Trigger) (until dag.Micros, actor, reason string) {
		if t.Name == "feast" {
			return 7_000_000, "ada", "holidays"
		}
		return 0, "", ""
	}
	is := inspect.Sights{Away: away, Pause: pause}
	said := func(all []inspect.Reason) (lines []string) {
		for _, r := range all {
			lines = append(lines, fmt.Sprintf("%s since %d expected %d: %s", r.Code, r.Since, r.Expected, r.What))
		}
		return lines
	}
	want := []string{
		"trigger_paused since 0 expected 0: trigger hand is paused by ada: lunch",
		"trigger_pause_planned since 0 expected 0: trigger feast is paused until 1970-01-01T00:00:07Z by ada: holidays",
		"source_away since 5 expected 0: the source of trigger crm does not reach the other system: connection refused",
		"trigger_ended since 0 expected 0: trigger once has ended: no further instant",
		"trigger_due since 0 expected 9: trigger night waits for its next instant",
	}
	if is := said(inspect.Idle(&w, ts, is)); !slices.Equal(is, want) {
		t.Errorf("%q,\nwant %q", is, want)
	}
	w.State = store.WorkflowPaused
	if is := said(inspect.Idle(&w, ts[:1], is)); len(is) != 1 || is[0] != "workflow_paused since 0 expected 0: the workflow is paused: its triggers start no runs" {
		t.Errorf("paused: %q", is)
	}
	w.State = store.WorkflowActive
	if is := inspect.Idle(&w, nil, is); len(is) != 1 || is[0].Code != "no_trigger" || is[0].Unblocks != "skein run shop/w" {
		t.Errorf("without triggers: %+v", is)
	}
}
