package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// noDefinitions is a Definitions for planners that need no parameters.
type noDefinitions struct{}

func (noDefinitions) Version(context.Context, dag.WorkflowID, int32) (store.Version, error) {
	return store.Version{}, store.ErrNotFound
}

// at parses an instant such as 2026-03-01T10:00:00Z.
func at(t testing.TB, text string) dag.Micros {
	t.Helper()
	v, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return dag.Micro(v)
}

// decl makes a declaration as the workflow package does.
func decl(kind string, change func(*workflow.Trigger)) *workflow.Trigger {
	d := &workflow.Trigger{Name: "t", Kind: kind, Timezone: "UTC", Overlap: "allow", Catchup: "latest", CatchupLimit: 100,
		Gap: "run_after", Repeat: "once"}
	if change != nil {
		change(d)
	}
	return d
}

func cronDecl(expr string, change func(*workflow.Trigger)) *workflow.Trigger {
	return decl(workflow.KindCron, func(d *workflow.Trigger) {
		d.Cron = expr
		if change != nil {
			change(d)
		}
	})
}

func everyDecl(every time.Duration, change func(*workflow.Trigger)) *workflow.Trigger {
	return decl(workflow.KindEvery, func(d *workflow.Trigger) {
		d.Every = workflow.Duration(every)
		if change != nil {
			change(d)
		}
	})
}

// declaredAt returns the row of a declaration that was made at an instant.
func declaredAt(t fataler, p *Planner, d *workflow.Trigger, now dag.Micros) store.Trigger {
	t.Helper()
	row := store.Trigger{Workflow: 1, Name: d.Name, Kind: d.Kind, Spec: d.Encode(), On: d.On(), MaxRuns: d.MaxConcurrent}
	if err := p.Begin(&row, now); err != nil {
		t.Fatal(err)
	}
	return row
}

// carry applies a plan to its row as the engine does.
func carry(row *store.Trigger, p *engine.Plan) {
	row.Fired += int64(len(p.Starts))
	row.Next, row.Decided = p.Next, max(p.Decided, row.Decided)
	if p.State != "" {
		row.State, row.Reason = p.State, p.Reason
	}
	if p.Data != nil {
		row.Data = p.Data
	}
}

// shown returns a plan as text, with one line for each of its parts.
func shown(p *engine.Plan) string {
	var b strings.Builder
	for _, l := range p.Lines {
		fmt.Fprintf(&b, "%s %s..%s %d", l.Outcome, clock(l.At), clock(l.Last), l.Count)
		if l.Key != "" {
			fmt.Fprintf(&b, " key %s", l.Key)
		}
		fmt.Fprintf(&b, ": %s\n", l.Reason)
	}
	for i, s := range p.Starts {
		if i == 3 && len(p.Starts) > 6 {
			fmt.Fprintf(&b, "… %d more\n", len(p.Starts)-6)
		}
		if i >= 3 && i < len(p.Starts)-3 {
			continue
		}
		fmt.Fprintf(&b, "start %s", clock(s.Instant))
		if s.Key != "" {
			fmt.Fprintf(&b, " key %s", s.Key)
		}
		if s.Late {
			b.WriteString(" late")
		}
		if s.StartBy != 0 {
			fmt.Fprintf(&b, " by %s", clock(s.StartBy))
		}
		if s.Reason != "" {
			fmt.Fprintf(&b, ": %s", s.Reason)
		}
		b.WriteString("\n")
	}
	if p.Next != 0 {
		fmt.Fprintf(&b, "next %s\n", clock(p.Next))
	}
	if p.State != "" {
		fmt.Fprintf(&b, "%s: %s\n", p.State, p.Reason)
	}
	return b.String()
}

func mustJSON(t testing.TB, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fataler has the methods that rapid.T and testing.T share.
type fataler interface {
	Helper()
	Fatal(args ...any)
}
