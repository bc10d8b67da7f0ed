package workflow

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"

	"github.com/google/cel-go/cel"
)

// ones is a JSON list of n ones.
func ones(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }

// thrice goes three times through a list: its cost is the cube of the list's length.
func thrice(list string) string {
	return fmt.Sprintf("%s.all(a, %[1]s.all(b, %[1]s.all(c, a+b+c>0)))", list)
}

// TestCostlyCondition: a step does not evaluate a condition that costs more than its limit. Outside of the
// step it is evaluated, with the same result as without limits, and once for the same view.
func TestCostlyCondition(t *testing.T) {
	view := func(n int, light bool) dag.View {
		return dag.View{Success: true, Params: []byte(`{"l":` + ones(n) + `}`), Light: light}
	}
	var all Compiler
	c, err := all.Condition(thrice("params.l"))
	if err != nil {
		t.Fatal(err)
	}
	if holds, err := c.Holds(view(5, true)); err != nil || !holds {
		t.Errorf("a cheap view: %v %v", holds, err)
	}
	if _, err := c.Holds(view(30, true)); !errors.Is(err, dag.ErrCostly) {
		t.Errorf("a costly view in a step: %v", err)
	}
	for range 3 {
		if holds, err := c.Holds(view(30, false)); err != nil || !holds {
			t.Errorf("a costly view outside: %v %v", holds, err)
		}
	}
	if n := len(all.memo.known); n != 1 {
		t.Errorf("%d results are kept, want 1", n)
	}
	if _, err := c.Holds(view(90, false)); err == nil || !strings.Contains(err.Error(), "more than 500000 units") {
		t.Errorf("beyond the limit: %v", err)
	}
}

// TestStepCost: a step evaluates a condition for the longest list that costs at most 10,000 units, and not for
// the next longer one. The costs are those that CEL counts without a limit.
func TestStepCost(t *testing.T) {
	const source = "params.l.all(a, a > 0)"
	x, faults := (*declarations)(nil).compile(source, inIf)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	p, err := x.env.Program(x.ast, cel.EvalOptions(cel.OptTrackCost))
	if err != nil {
		t.Fatal(err)
	}
	params := func(n int) []byte { return []byte(`{"l":` + ones(n) + `}`) }
	cost := func(n int) uint64 {
		t.Helper()
		from := values{params: params(n)}
		_, details, err := p.Eval(&variables{refs: x.refs, lookup: from.lookup})
		if err != nil {
			t.Fatal(err)
		}
		return *details.ActualCost()
	}
	most := sort.Search(10_000, func(n int) bool { return cost(n) > 10_000 }) - 1
	t.Logf("lists of %d and %d elements cost %d and %d units", most, most+1, cost(most), cost(most+1))
	var all Compiler
	c, err := all.Condition(source)
	if err != nil {
		t.Fatal(err)
	}
	if holds, err := c.Holds(dag.View{Params: params(most), Light: true}); err != nil || !holds {
		t.Errorf("%d units in a step: %v %v", cost(most), holds, err)
	}
	if _, err := c.Holds(dag.View{Params: params(most + 1), Light: true}); !errors.Is(err, dag.ErrCostly) {
		t.Errorf("%d units in a step: %v", cost(most+1), err)
	}
}

// TestCostIsRefused: if the text of an expression shows that it costs too much, the file is refused, with the
// place of the expression.
func TestCostIsRefused(t *testing.T) {
	for what, expr := range map[string]string{
		"in any case":              strings.ReplaceAll("size(L.map(a, L.map(b, L.map(c, a+b+c)))) > 0", "L", ones(90)),
		"with what it can be seen": thrice(ones(90)),
	} {
		file := "name: w\nnamespace: n\ntasks:\n  a: {run: x}\n  b:\n    needs: a\n    run: x\n    if: \"" + expr + "\"\n"
		_, errs := Parse([]byte(file), Options{})
		if len(errs) != 1 || errs[0].Line != 8 || errs[0].Column == 0 {
			t.Errorf("%s: %v", what, errs)
			continue
		}
		if text := errs[0].Error(); !strings.Contains(text, "units to evaluate, at most 500000 are allowed") {
			t.Errorf("%s: %s", what, text)
		}
	}
	key, err := CompileKey("string(" + thrice("params.l") + ")")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := key.Key([]byte(`{"l":`+ones(40)+`}`), time.Time{}); !errors.As(err, new(costError)) {
		t.Errorf("a key for which the writer of a shard would evaluate for long: %v", err)
	}
	if err := CheckKey("string(" + thrice(ones(30)) + ")"); err == nil || !strings.Contains(err.Error(), "units to evaluate, at most 10000 are allowed here") {
		t.Errorf("a declared key that costs too much for every run: %v", err)
	}
	if err := CheckKey("string(" + thrice("params.l") + ")"); err != nil {
		t.Errorf("a declared key whose cost depends on the run: %v", err)
	}
	h := Webhook{Filter: thrice("event.body")}
	if _, err := h.Passes([]byte(`{"body":` + ones(60) + `}`)); !errors.As(err, new(costError)) {
		t.Errorf("a filter: %v", err)
	}
}
