package app

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"skein.dev/skein/internal/metric"
)

var (
	familyOf   = regexp.MustCompile(`skein_[a-z_]+`)
	selectorOf = regexp.MustCompile(`(skein_[a-z_]+)(?:\{([^}]*)\})?`)
	matcherOf  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	groupingOf = regexp.MustCompile(`by \(([^)]*)\)`)
)

// targetLabels are the labels that Prometheus itself adds.
var targetLabels = []string{"le", "instance", "job"}

// faults returns the faults of an expression of PromQL: names of families and labels that are not in the
// catalogue, and brackets that do not match.
func faults(expr string) (all []string) {
	fault := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if !familyOf.MatchString(expr) && !strings.Contains(expr, "process_") {
		fault("%s names no metric", expr)
	}
	for _, pair := range []string{"()", "{}", "[]"} {
		if strings.Count(expr, pair[:1]) != strings.Count(expr, pair[1:]) {
			fault("%s do not match in %s", pair, expr)
		}
	}
	known := slices.Clone(targetLabels)
	for _, m := range selectorOf.FindAllStringSubmatch(expr, -1) {
		name := strings.TrimPrefix(m[1], metric.Prefix)
		f := metric.Find(name)
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if base, cut := strings.CutSuffix(name, suffix); f == nil && cut {
				if f = metric.Find(base); f != nil && f.Type != metric.Duration {
					f = nil
				}
			}
		}
		if f == nil {
			fault("there is no metric %s", m[1])
			continue
		}
		known = append(known, f.Labels...)
		for _, l := range matcherOf.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(f.Labels, l[1]) {
				fault("%s has no label %s", m[1], l[1])
			}
		}
	}
	for _, by := range groupingOf.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(by[1], ",") {
			if !slices.Contains(known, strings.TrimSpace(l)) {
				fault("no metric of %s has the label %s", expr, l)
			}
		}
	}
	return all
}

// TestRulesFile checks that the alerts for Prometheus use only names of the catalogue, and that each alert
// says what to do.
func TestRulesFile(t *testing.T) {
	text, err := os.ReadFile("../../deploy/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	runbooks, err := os.ReadFile("../../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	tested, err := os.ReadFile("../../deploy/prometheus/rules_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			n++
			for _, f := range faults(r.Expr) {
				t.Errorf("%s: %s", r.Alert, f)
			}
			if r.Annotations["summary"] == "" || r.Annotations["runbook"] == "" || r.Labels["severity"] == "" {
				t.Errorf("%s lacks a severity, a summary or a runbook", r.Alert)
			}
			if r.Annotations["runbook_url"] != "docs/runbooks.md#"+strings.ToLower(r.Alert) || !strings.Contains(string(runbooks), "\n### "+r.Alert+"\n") {
				t.Errorf("%s has no section in docs/runbooks.md, or no runbook_url", r.Alert)
			}
			if !strings.Contains(string(tested), `alertname="`+r.Alert+`"`) {
				t.Errorf("%s does not fire in rules_test.yaml", r.Alert)
			}
		}
	}
	if sections := strings.Count(string(runbooks), "\n### "); sections != n {
		t.Errorf("docs/runbooks.md has %d sections for %d alerts", sections, n)
	}
	if n < 15 {
		t.Errorf("%d rules were read", n)
	}
}

// TestRulesInPrometheus lets Prometheus itself check the rules: each rule fires in the state that it is for,
// and none fires in a healthy cluster.
func TestRulesInPrometheus(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		const why = "promtool is missing (Debian's package prometheus); TestRulesFile checks the rules without it"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	dir := t.TempDir()
	for _, name := range []string{"rules.yaml", "rules_test.yaml"} {
		text, err := os.ReadFile("../../deploy/prometheus/" + name) // the cache of test results knows the files that Go reads
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// TestDashboard checks that the dashboard for Grafana uses only names of the catalogue.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../deploy/grafana/skein.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID          int
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	rows, seen := 0, map[int]bool{}
	for _, p := range board.Panels {
		if seen[p.ID] {
			t.Errorf("two panels have the number %d", p.ID)
		}
		if seen[p.ID] = true; p.Type == "row" {
			rows++
			continue
		}
		if len(p.Targets) == 0 {
			t.Errorf("panel %s shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			for _, f := range faults(target.Expr) {
				t.Errorf("panel %s: %s", p.Title, f)
			}
		}
	}
	if rows != 6 {
		t.Errorf("%d rows, want 6", rows)
	}
}

// TestFaults checks that a wrong name, a wrong label and an open bracket are noticed.
func TestFaults(t *testing.T) {
	for _, bad := range []string{"skein_nothing > 0", `skein_runs_ended_total{status="failed"}`, "sum by (workflow) (skein_accepting)",
		"sum(skein_accepting", "skein_accepting_bucket", "up == 0"} {
		if len(faults(bad)) == 0 {
			t.Errorf("%s passes", bad)
		}
	}
}
