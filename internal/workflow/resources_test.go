package workflow

import (
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
)

func TestResources(t *testing.T) {
	src := `name: w
defaults: {resources: regular}
tasks:
  none: {run: x}
  class: {run: x, resources: basic}
  both: {run: x, resources: {cpu: 0.5, memory: 1.5Gi}, group: etl}
  nap: {wait: 1s}
`
	ws, errs := Parse([]byte(src), Options{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	want := map[string]dag.Place{"none": dag.Anywhere.With(dag.Need{CPU: 1000, Memory: 1 << 30}), "class": dag.Anywhere.With(dag.Need{CPU: 250, Memory: 256 << 20}),
		"both": dag.NewPlace("", "etl", nil).With(dag.Need{CPU: 500, Memory: 3 << 29}), "nap": dag.Anywhere}
	for i := range ws[0].Tasks {
		name := ws[0].Tasks[i].Name
		if got := ws[0].Policy(i).Place; got != want[name] {
			t.Errorf("%s runs at %q, want %q", name, got, want[name])
		}
	}
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "512": 512, "1K": 1000, "64Mi": 64 << 20, "1.5Gi": 3 << 29, "2T": 2e12} {
		if got, err := ParseSize(s); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "Gi", "4Gb", "-1Mi", "1e400", "NaN", "9999Ti", "1 Gi"} {
		if got, err := ParseSize(s); err == nil {
			t.Errorf("%q is taken as %d", s, got)
		}
	}
}

// TestClasses: the present resources of the operator's classes are written into the definition. A reader that
// does not know the classes accepts any name; a reader that does lists them in its error.
func TestClasses(t *testing.T) {
	src := "name: w\ndefaults: {resources: heavy}\ntasks:\n  a: {run: x}\n  b: {run: x, resources: light}\n  c: {run: x, resources: premium}\n  d: {needs: a, tasks: \"${{ [] }}\"}\n"
	own := map[string]dag.Need{"heavy": {CPU: 4500, Memory: 16 << 30}, "light": {CPU: 100}}
	asked := 0
	ws, errs := Parse([]byte(src), Options{Classes: func(string) map[string]dag.Need { asked++; return own }})
	if len(errs) > 0 || asked != 1 {
		t.Fatal(errs, asked)
	}
	w := ws[0]
	for i, need := range []dag.Need{own["heavy"], own["light"], {CPU: 2000, Memory: 4 << 30}} {
		if got := w.Policy(i).Place; got != dag.Anywhere.With(need) {
			t.Errorf("task %d runs at %q, want %v", i, got, need)
		}
	}
	if want := []Class{{"heavy", own["heavy"]}, {"light", own["light"]}}; !slices.Equal(w.Classes, want) {
		t.Errorf("it names %v", w.Classes)
	}
	if got := string(w.Tasks[3].Made.Head); got != `{"defaults":{"resources":{"cpu":4.5,"memory":"17179869184"}}}` {
		t.Errorf("tasks that are made get %s", got)
	}
	if ws, errs = Parse([]byte(src), Options{}); len(errs) > 0 || len(ws[0].Classes) != 2 || ws[0].Classes[0].Need != (dag.Need{}) {
		t.Errorf("not knowing them: %v", errs)
	}
	for name, hint := range map[string]string{"heavi": "did you mean heavy?", "regulr": "did you mean regular?", "zzzzz": "skein class set zzzzz --cpu 2 --memory 4Gi"} {
		_, errs := Parse([]byte("name: w\ntasks:\n  a: {run: x, resources: "+name+"}\n"), Options{Classes: func(string) map[string]dag.Need { return own }})
		if len(errs) != 1 || errs[0].Line != 3 || errs[0].Key != "tasks.a.resources" || !strings.Contains(errs[0].Message, "there are basic, regular, premium, heavy, light") ||
			!strings.Contains(errs[0].Hint, hint) {
			t.Errorf("%s: %+v", name, errs)
		}
	}
}
