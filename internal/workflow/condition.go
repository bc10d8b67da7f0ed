package workflow

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"skein.dev/skein/internal/dag"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	celref "github.com/google/cel-go/common/types/ref"
)

// conditionsMax bounds the conditions that a Compiler keeps.
const conditionsMax = 10_000

// Compiler compiles conditions. Equal texts share one program, up to a bound. The zero value can be used at
// once, by several goroutines.
type Compiler struct {
	mu    sync.Mutex
	known map[string]dag.Condition
	memo  memo
}

// Condition implements dag.Compiler.
func (c *Compiler) Condition(source string) (dag.Condition, error) {
	c.mu.Lock()
	known := c.known[source]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	compiled, err := compileCondition(source)
	if err != nil {
		return nil, err
	}
	compiled.memo = &c.memo
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= conditionsMax {
		c.known = map[string]dag.Condition{}
	}
	c.known[source] = compiled
	return compiled, nil
}

// CompileCondition compiles one condition from its stored text. It makes the program itself on the first use.
// A caller that compiles many conditions should use a [Compiler].
func CompileCondition(source string) (dag.Condition, error) {
	c, err := compileCondition(source)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func compileCondition(source string) (*condition, error) {
	x, faults := (*declarations)(nil).compile(conditionText(source), inIf)
	if len(faults) > 0 {
		return nil, fmt.Errorf("condition %s: %w", quoteShort(source), faults[0])
	}
	return newCondition(source, x), nil
}

// conditionText removes the ${{ }} around an expression, if there is one.
func conditionText(source string) string {
	text := strings.TrimSpace(source)
	if strings.HasPrefix(text, "${{") && closing(text, 3) == len(text)-2 {
		return strings.TrimSpace(text[3 : len(text)-2])
	}
	return text
}

func newCondition(source string, x *expression) *condition {
	c := &condition{source: source, x: x}
	seen := map[string]bool{}
	for _, r := range x.refs {
		c.handles = c.handles || r.handles()
		c.reads.Params = c.reads.Params || r.kind == paramRef || r.kind == paramsRef
		if r.readsTask() && !seen[r.task] {
			seen[r.task] = true
			c.reads.Tasks = append(c.reads.Tasks, r.task)
		}
	}
	return c
}

// condition implements dag.Condition.
type condition struct {
	source  string
	x       *expression
	handles bool
	reads   dag.Reads
	costly  atomic.Bool // set once the condition has cost more than a step may, because it may do so again
	memo    *memo       // nil if results are not cached
}

func (c *condition) Source() string   { return c.source }
func (c *condition) Handles() bool    { return c.handles }
func (c *condition) Reads() dag.Reads { return c.reads }

// Holds implements dag.Condition. A condition that costs more than a step may is evaluated again outside of
// the step, and then only once for the same view.
func (c *condition) Holds(v dag.View) (bool, error) {
	if c.costly.Load() {
		if v.Light {
			return false, dag.ErrCostly
		}
		return c.memo.of(c, &v)
	}
	holds, err := c.within(limitStep, &v)
	if !errors.As(err, new(costError)) {
		return holds, err
	}
	c.costly.Store(true)
	if v.Light {
		return false, dag.ErrCostly
	}
	return c.memo.of(c, &v)
}

func (c *condition) full(v *dag.View) (bool, error) { return c.within(limitFull, v) }

func (c *condition) within(l limit, v *dag.View) (bool, error) {
	from := values{params: v.Params, outputs: v.Task}
	got, err := c.x.within(l, func(r ref) celref.Val {
		switch r.kind {
		case successRef:
			return types.Bool(v.Success)
		case failureRef:
			return types.Bool(v.Failure)
		case alwaysRef:
			return types.True
		}
		return from.lookup(r)
	})
	if err != nil {
		return false, err
	}
	holds, ok := got.(types.Bool)
	if !ok {
		return false, fmt.Errorf("the condition is neither true nor false, but a %s", typeWord(got.Type().TypeName()))
	}
	return bool(holds), nil
}

// typeWord returns the word that workflow files have for a CEL type.
func typeWord(name string) string {
	switch name {
	case "double":
		return "float"
	case "null_type":
		return "null"
	case "google.protobuf.Timestamp":
		return "instant"
	case "google.protobuf.Duration":
		return "duration"
	}
	return name
}

// isBoolean reports whether an expression of this type may be a condition.
func isBoolean(t *cel.Type) bool {
	return t.Kind() == types.BoolKind || t.Kind() == types.DynKind
}
