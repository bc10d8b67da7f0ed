package workflow

import (
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
