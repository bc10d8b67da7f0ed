package workflow

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	celref "github.com/google/cel-go/common/types/ref"

	"skein.dev/skein/internal/suggest"
)

// Needed is a run of another workflow that a task waits for.
type Needed struct {
	Workflow string `json:"workflow"`       // NAME in the same namespace, or NAMESPACE/NAME
	Task     string `json:"task,omitempty"` // a task of that run; "" means the run itself
	Within   string `json:"within"`         // hour | day | week | month, or the largest distance in time
	Zone     string `json:"timezone,omitempty"`
	Require  string `json:"require"` // succeeded | ended
}

// Bounds of the pause between two checks of a condition.
const (
	lookEvery    = 10 * time.Second
	lookEveryMin = time.Second
)

// dependentOutputs are the outputs that every dependent task has.
var dependentOutputs = []Output{{Name: "run", Type: String}, {Name: "state", Type: String}}

func (r *reader) dependent(t *Task, n *node, at string) {
	d := n.get("dependent")
	if d.kind != mapNode || d.get("workflow").str() == "" {
		return
	}
	q := &Needed{Workflow: d.get("workflow").str(), Task: d.get("task").str(), Within: firstText(d.get("within").str(), "day"),
		Zone: d.get("timezone").str(), Require: firstText(d.get("require").str(), "succeeded")}
	t.Dependent, t.Outputs = q, dependentOutputs
	if _, err := zoneOf(q.Zone); err != nil {
		r.failNode(d.get("timezone"), join(at, "timezone"), err.Error(), "")
	}
	namespace, _, _ := strings.Cut(r.self, "/")
	if q.Workflow == r.self || namespace+"/"+q.Workflow == r.self {
		r.failNode(d.get("workflow"), join(at, "workflow"), "the workflow waits for a run of itself", "name another workflow; max_concurrent_runs makes runs wait for earlier ones")
	}
}

// Span returns the span in which the instant of the other run must be: at or after from, and before until.
func (q *Needed) Span(instant time.Time) (from, until time.Time, err error) {
	loc, err := zoneOf(q.Zone)
	if err != nil {
		return from, until, err
	}
	if checkUnit(q.Within) != nil {
		d, err := ParseDuration(q.Within)
		return instant.Add(-time.Duration(d)), instant.Add(time.Duration(d)).Add(time.Microsecond), err
	}
	if from, err = startOf(instant, q.Within, loc, 0); err == nil {
		until, err = startOf(instant, q.Within, loc, 1)
	}
	return from, until, err
}

// TargetOf returns the workflow of a dependent, as NAMESPACE/NAME.
func (w *Workflow) TargetOf(q *Needed) string { return w.Target(&Call{Workflow: q.Workflow}) }

func (r *reader) waitCondition(t *Task, n *node, at string) {
	until, cond, every := n.get("until"), n.get("condition"), n.get("every")
	switch {
	case until != nil:
		r.failNode(until, join(at, "until"), "a wait is until an instant, or until a condition holds", "keep one of them")
	case cond == nil:
		r.failNode(n, at, "the wait has neither until nor condition nor event", "write a length of time, as in wait: 10m, or {until: INSTANT}, {condition: EXPRESSION} or {event: TYPE}")
	}
	t.Wait.Every = durationOf(every)
	if every != nil && time.Duration(t.Wait.Every) < lookEveryMin {
		r.failNode(every, join(at, "every"), "the condition would be checked more often than once a second", "write every: 1s, or more")
	}
	if t.Wait.Condition = conditionText(cond.str()); t.Wait.Condition == "" {
		t.Wait = nil
	}
}

func (c *readCheck) checkWaitCondition(w *node, at string, read func(n *node, at string, refs []ref)) {
	v := w.get("condition")
	if v == nil || !v.isText() {
		return
	}
	text := conditionText(v.text)
	got := c.compile(text, inWait)
	c.complain(v, at, len([]rune(v.text[:max(strings.Index(v.text, text), 0)])), got.faults)
	read(v, at, got.refs)
}

// Holds evaluates once the condition for which a task waits. If the condition is false, later is the time
// until the next check.
func (w *Workflow) Holds(task int, in Inputs) (later time.Duration, err error) {
	t := &w.Tasks[task]
	from := w.valuesOf(&in)
	from.now = in.Now
	holds, err := w.truth(t.Wait.Condition, inWait, &from)
	switch {
	case err != nil:
		return 0, fmt.Errorf("the condition%w", err)
	case holds:
		return 0, nil
	}
	return t.Wait.looks(), nil
}

// truth evaluates an expression that must give true or false. The text of the error can follow the name of
// the expression.
func (w *Workflow) truth(text string, in scope, from *values) (bool, error) {
	c, err := w.exprs.get(foreachText(text), in)
	if err != nil {
		return false, fmt.Errorf(": %w", err)
	}
	v, err := c.parts[0].expr.run(func(r ref) celref.Val { return from.lookup(r) })
	if err != nil {
		return false, fmt.Errorf(" %s: %w", quoteShort(text), err)
	}
	holds, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf(" %s is neither true nor false, but a %s", quoteShort(text), typeWord(v.Type().TypeName()))
	}
	return bool(holds), nil
}

// looks returns the pause between two checks of the condition.
func (w *Wait) looks() time.Duration {
	if w.Every > 0 {
		return time.Duration(w.Every)
	}
	return lookEvery
}

// Words describes for people which events outside of the run a task waits for.
func (q *Needed) Words(target string, from, until time.Time) string {
	what := "a run of " + target
	if q.Task != "" {
		what = "task " + q.Task + " of " + what
	}
	state := map[string]string{"succeeded": "has succeeded", "ended": "has ended"}[q.Require]
	return fmt.Sprintf("until %s %s whose instant is between %s and %s", what, state, from.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339))
}

// Accepts reports whether the end of a run or a task satisfies the wait.
func (q *Needed) Accepts(state string) bool {
	if q.Require == "ended" {
		return slices.Contains([]string{"succeeded", "failed", "stopped", "upstream_failed", "skipped"}, state) && (q.Task != "" || state != "skipped")
	}
	return state == "succeeded"
}

// WithoutTask returns a message that the current version of a workflow does not have a task, with the name
// that is most similar.
func (w *Workflow) WithoutTask(target, task string) string {
	text := fmt.Sprintf("workflow %s has no task %s", target, task)
	near := suggest.Nearest(task, func(yield func(string) bool) {
		for i := range w.Tasks {
			if !yield(w.Tasks[i].Name) {
				return
			}
		}
	})
	if near != "" {
		text += " (did you mean " + near + "?)"
	}
	return text
}
