package workflow

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
)

// ones is a JSON list of n ones.
func ones(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }

// thrice goes three times through a list: its cost is the cube of the list's length.
func thrice(list string) string {
	return fmt.Sprintf("%s.all(a, %[1]s.all(b, %[1]s.all(c, a+b+c>0)))", list)
}

// TestCostlyCondition: what costs more than a step may take is not evaluated in one. Outside it is, with the same result
// as a condition that never met a limit, also beyond what is allowed at all; and once for the same view.
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

// TestCostIsRefused: where it can be seen that an expression costs more than it may, the file is refused at its place.
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
	h := Webhook{Filter: thrice("event.body")}
	if _, err := h.Passes([]byte(`{"body":` + ones(60) + `}`)); !errors.As(err, new(costError)) {
		t.Errorf("a filter: %v", err)
	}
}
