package workflow

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// must parses a valid file and returns its only workflow.
func must(t testing.TB, src string) *Workflow {
	t.Helper()
	all, errs := Parse([]byte(src), Options{File: "f.yaml"})
	if len(errs) > 0 {
		t.Fatalf("%s\n%s", src, errs.Error())
	}
	return all[0]
}

// TestWhole reads the example of the contract: the parser knows every key, and refuses only keys of future
// features, each by its name.
func TestWhole(t *testing.T) {
	src, err := os.ReadFile("testdata/whole.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, errs := Parse(src, Options{File: "whole.yaml"})
	refused := map[string]bool{}
	for _, e := range errs {
		refused[e.Message] = true
		if !strings.Contains(e.Message, "not supported yet") {
			t.Errorf("refused for more than a feature to come:\n%s", e.Text())
		}
	}
	for feature, sentence := range later {
		if !refused[sentence] {
			t.Errorf("%s is not refused", feature)
		}
	}
}

const valid = `
# yaml-language-server: $schema=x
name: nightly
namespace: shop
description: >
  Folded text
  of two lines
params:
  day: {type: string, format: date, default: "${{ date(trigger.time) }}"}
  n: {type: int, default: 0x10}
  f: {type: float, default: 1}
  b: bool
  j: {type: json, default: {a: [1, 2.5, null, true]}}
  o: {type: string, required: false}
  e: {enum: [5, a], default: 5}
priority: high
timeout: 2h
on_failure: end
defaults: {timeout: 30m, retry: {max: 2, delay: 10s}, kill_grace: 5s, on_timeout: warn, on_lost: ask, start_deadline: 1h}
env: {TZ: UTC, N: 5, T: true, Q: "yes", E: "", D: "${{ params.day }}"}
splitter: default
files: "*.sh"
tasks:
  extract-orders:
    run: ./orders.sh
    retry: {max: 3, delay: 10s, backoff: 2, max_delay: 5m, jitter: 0.2, on_exit: [75]}
    timeout: 10m
    kill_grace: 10s
    outputs: {rows: int, name: , all: json}
    dir: .
    priority: high
  users: {run: true}
  five: {run: 5, timeout: 0}
  argv: {run: [echo, "a b", 5, ""]}
  py:
    needs: [extract-orders, users]
    run:
      python: |
        import os
        print("}} {{")
    env:
      ROWS: "${{ tasks[\"extract-orders\"].outputs.rows }} of ${{ params.n }}"
  file: {needs: users, run: {file: lib/x.py, args: [a, 1]}}
  cleanup: {needs: py, if: always(), run: x}
  maybe:
    needs: extract-orders
    if: ${{ tasks["extract-orders"].outputs.rows > params.n && params.day != "x" }}
    run: x
  last:
    needs: [users, extract-orders]
    if: "tasks.users.state == 'failed' || size(tasks['extract-orders'].outputs.all) > 2"
    run: x
`

func TestValid(t *testing.T) {
	w := must(t, strings.Replace(valid, "name: ,", "name: string,", 1))
	if w.Namespace != "shop" || w.Description != "Folded text of two lines\n" || w.Level() != dag.High || w.Timeout.String() != "2h" {
		t.Errorf("%+v", w)
	}
	run := func(name string) Run {
		i, ok := w.Find(name)
		if !ok {
			t.Fatalf("no task %s", name)
		}
		return w.Tasks[i].Run
	}
	for name, want := range map[string]Run{
		"extract-orders": {Shell: "./orders.sh"},
		"users":          {Shell: "true"},
		"five":           {Shell: "5"},
		"argv":           {Argv: []string{"echo", "a b", "5", ""}},
		"py":             {Lang: "python", Code: "import os\nprint(\"}} {{\")\n"},
		"file":           {File: "lib/x.py", Args: []string{"a", "1"}},
	} {
		if got := run(name); !reflect.DeepEqual(got, want) {
			t.Errorf("run of %s is %+v, want %+v", name, got, want)
		}
	}
	if p := w.Policy(0); p.Retry.Max != 3 || p.Timeout.String() != "10m0s" || !p.WarnOnTimeout || p.Priority != dag.High {
		t.Errorf("policy %+v", p)
	}
	if p := w.Policy(0); p.OnLost != dag.LostAsk || p.StartDeadline != time.Hour {
		t.Errorf("on_lost %d, start deadline %s", p.OnLost, p.StartDeadline)
	}
	if five, _ := w.Find("five"); w.Policy(five).Timeout != 0 || w.Policy(five).Retry.Max != 2 {
		t.Errorf("policy of five %+v", w.Policy(five))
	}
	g, err := w.Graph(0)
	if err != nil {
		t.Fatal(err)
	}
	last, _ := g.Find("last")
	if c := g.Condition(last); !c.Handles() || !reflect.DeepEqual(c.Reads().Tasks, []string{"users", "extract-orders"}) {
		t.Errorf("condition %+v", c)
	}
	roundTrip(t, w)
}

func roundTrip(t interface{ Fatalf(string, ...any) }, w *Workflow) {
	def, err := json.Marshal(w)
	if err != nil {
		t.Fatalf("%v", err)
	}
	again, err := Decode(def)
	if err != nil {
		t.Fatalf("%v", err)
	}
	w.exprs, again.exprs = &derived{}, &derived{}
	if !reflect.DeepEqual(w, again) {
		t.Fatalf("decoding gives another workflow:\n%s\n%+v\n%+v", def, w, again)
	}
}

func TestDocuments(t *testing.T) {
	all, errs := Parse([]byte("%YAML 1.2\n---\nname: a\ntasks: {a: {run: x}}\n--- # two\nname: b\ntasks:\n  a:\n    run: x\n...\n"), Options{})
	if len(errs) > 0 || len(all) != 2 || all[1].Name != "b" {
		t.Fatalf("%v %v", all, errs)
	}
	crlf := must(t, "\xef\xbb\xbfname: a\r\ntasks:\r\n  a:\r\n    run: |\r\n      x\r\n      y\r\n")
	if crlf.Tasks[0].Run.Shell != "x\ny\n" {
		t.Errorf("%q", crlf.Tasks[0].Run.Shell)
	}
	j := must(t, `{"name": "x", "tasks": {"a": {"run": ["a", "b"], "retry": {"max": 2}}}}`)
	if j.Tasks[0].Retry.Max != 2 {
		t.Errorf("%+v", j)
	}
	shared := must(t, "name: x\ntasks:\n  a: {run: x, env: &e {A: \"1\", B: 2}}\n  b:\n    run: y\n    env: *e\n  c:\n    run: z\n    retry: &r\n      max: 2\n  d: {run: x, retry: *r}\n")
	if !reflect.DeepEqual(shared.Tasks[1].Env, []KV{{"A", "1"}, {"B", "2"}}) || shared.Tasks[3].Retry.Max != 2 {
		t.Errorf("%+v", shared)
	}
	flow := must(t, "{name: x, tasks: {a: {run: y}}}\n")
	if flow.Tasks[0].Run.Shell != "y" {
		t.Errorf("%+v", flow)
	}
}

// TestHostile checks that no input costs more than its bound.
func TestHostile(t *testing.T) {
	deep := strings.Repeat("[", 1_000_000)
	var nested strings.Builder
	for i := range 1000 {
		nested.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	bomb := "b: &b0 [x,x]\n"
	for i := range 30 {
		bomb += fmt.Sprintf("b%d: &b%d [*b%d,*b%d,*b%d,*b%d]\n", i+1, i+1, i, i, i, i)
	}
	for name, c := range map[string]struct{ src, want string }{
		"100 MB":          {strings.Repeat("a", 100<<20), "too large"},
		"NUL":             {"name: a\x00b", "NUL"},
		"binary":          {"\x7fELF\x02\x01\x01\x00", "NUL"},
		"not UTF-8":       {"name: \xff\xfe", "not UTF-8"},
		"UTF-16":          {"\xff\xfen\x00", "UTF-16"},
		"control":         {"name: a\x1bb", "U+001B"},
		"flow depth":      {"name: " + deep, "nested"},
		"flow depth map":  {"{a: " + strings.Repeat("{a: ", 1_000_000), "in one piece"},
		"flow depth 1000": {"name: " + deep[:1000], "nested more than 64 deep"},
		"list depth 1000": {strings.Repeat("- ", 1000), "nested more than 64 deep"},
		"16 MiB of signs": {strings.Repeat("[,", FileBytesMax/2), "in one piece"},
		"JSON depth":      {`{"name": ` + deep, "nested"},
		"list depth":      {strings.Repeat("- ", 1_000_000), "in one piece"},
		"block depth":     {nested.String(), "nested"},
		"unclosed flow":   {"name: x\nenv: {" + strings.Repeat("a: b, ", 10_000), "keys in one piece"},
		"one flow tasks":  {"name: x\ntasks: {" + strings.Repeat("a: {run: x}, ", 10_000) + "}", "keys in one piece"},
		"alias bomb":      {bomb, "stand for more than"},
		"only keys":       {strings.Repeat("a:\n", 1_000_000), "given twice"},
		"only colons":     {strings.Repeat(":", 1_000_000), ""},
		"only dashes":     {strings.Repeat("---\n", 1_000_000), "empty"},
		"too many":        {"name: x\ntasks:\n" + strings.Repeat("  a: {run: x}\n", 1_000_000), "more than 100000 tasks"},
		"long expression": {"name: x\nenv: {A: \"${{ " + strings.Repeat("1+", 4000) + "1 }}\"}\ntasks: {a: {run: x}}", "longer than"},
		"deep expression": {"name: x\nenv: {A: \"${{ " + strings.Repeat("(", 1000) + "1" + strings.Repeat(")", 1000) + " }}\"}\ntasks: {a: {run: x}}", "expression"},
		"long name":       {"name: " + strings.Repeat("a", 1_000_000) + "\ntasks: {a: {run: x}}", "name must be"},
		"wide JSON":       {`{"name":"x","tasks":{` + strings.Repeat(`"a":{"run":1},`, 90_000) + `"b":{"run":1}}}`, "given twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := Parse([]byte(c.src), Options{File: "f.yaml"})
			if len(errs) == 0 || !strings.Contains(errs.Error(), c.want) {
				t.Errorf("said %.500s", errs.Error())
			}
			if len(errs) > errorsMax {
				t.Errorf("%d errors", len(errs))
			}
			for _, e := range errs {
				if e.Line < 1 || e.Column < 1 || len(e.Snippet) > 2000 || len(e.Message) > 2000 {
					t.Errorf("error %+.300v", e)
				}
			}
		})
	}
}

// A file with 100,000 tasks is accepted, and so is a file with many tasks that each have their own
// expression.
func TestManyTasks(t *testing.T) {
	const n = 100_000
	var b strings.Builder
	b.WriteString("name: big\nparams: {day: string}\ntasks:\n  t0: {run: x, outputs: {v: int}}\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "  t%d:\n    needs: [t%d]\n    run: echo %d\n    outputs: {v: int}\n", i, i-1, i)
		if i%10 == 0 {
			fmt.Fprintf(&b, "    if: params.day != \"x\"\n    env: {A: \"${{ tasks.t%d.outputs.v }}\"}\n", i-1)
		}
	}
	w := must(t, b.String())
	g, err := w.Graph(0)
	if err != nil || g.Len() != n {
		t.Fatalf("%v", err)
	}
	def, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(def)
	if err != nil || len(again.Tasks) != n || again.Tasks[n-1].Run.Shell != fmt.Sprintf("echo %d", n-1) {
		t.Fatalf("%v", err)
	}
}

// The examples that come with the program are valid.
func TestExamples(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../../examples", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(name) != ".yaml" {
			return err
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		found++
		if _, errs := Parse(src, Options{File: name, Dir: os.DirFS(filepath.Dir(name))}); len(errs) > 0 {
			t.Error(errs.Error())
		}
		return schemaFor(t).Validate(plain(t, src))
	})
	if err != nil || found == 0 {
		t.Fatalf("%d examples: %v", found, err)
	}
}

// The examples in the documents are valid, too.
func TestGuide(t *testing.T) {
	found := 0
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pages {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
			src, _, _ := strings.Cut(block, "```")
			if !strings.HasPrefix(src, "name:") {
				continue
			}
			found++
			if _, errs := Parse([]byte(src), Options{File: name}); len(errs) > 0 {
				t.Error(errs.Error())
			}
		}
	}
	if found < 5 {
		t.Errorf("%d workflows", found)
	}
}

func schemaFor(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(Schema())))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(SchemaID) // checks it against the metaschema
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plain decodes YAML with another decoder than that of this package, into the form that a JSON Schema
// validator needs.
func plain(t testing.TB, src []byte) any {
	t.Helper()
	j, err := yaml.YAMLToJSON(src)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(j)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchema(t *testing.T) {
	s := schemaFor(t)
	whole, err := os.ReadFile("testdata/whole.yaml")
	if err != nil {
		t.Fatal(err)
	}
	triggers, err := os.ReadFile("testdata/triggers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, src := range map[string]string{"whole": string(whole), "triggers": string(triggers), "valid": strings.Replace(valid, "name: ,", "name: string,", 1)} {
		if err := s.Validate(plain(t, []byte(src))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, src := range []string{
		"name: x\ntasks: {a: {run: x}}\nnme: y",
		"name: x\ntasks: {a: {run: x, nees: b}}",
		"name: x\ntasks: {a: {run: {ruby: x}}}",
		"name: x\ntasks: {a: {needs: b}}",
		"name: x\ntasks: {a: {run: x, wait: 1m}}",
		"name: x\ntasks: {a: {run: x, timeout: soon}}",
		"name: X\ntasks: {a: {run: x}}",
		"tasks: {a: {run: x}}",
		"name: x\ntasks: {a: {run: x, retry: {max: 1, dlay: 1s}}}",
		"name: x\ntasks: {a b: {run: x}}",
		"name: x\nmax_concurrent_runs: 0\ntasks: {a: {run: x}}",
		"name: x\ntriggers: [{every: 1h, count: 0}]\ntasks: {a: {run: x}}",
		"name: x\ntriggers: [{every: 1h, cron: '@daily'}]\ntasks: {a: {run: x}}",
		"name: x\ntriggers: [{name: a}]\ntasks: {a: {run: x}}",
		"name: x\ntriggers: [{weekly: {at: '06:00'}}]\ntasks: {a: {run: x}}",
		"name: x\ntriggers: [{monthly: {at: '06:00', day: 0}}]\ntasks: {a: {run: x}}",
		"name: x\ntriggers: [{annually: {at: '06:00', month: 13}}]\ntasks: {a: {run: x}}",
		"name: x\ntriggers: [{daily: {at: []}}]\ntasks: {a: {run: x}}",
		"name: x\ntriggers: [{webhook: {secret: 'a b'}}]\ntasks: {a: {run: x}}",
		"name: x\ntriggers: [{run_of: {workflow: a, require: some}}]\ntasks: {a: {run: x}}",
		"name: x\ntriggers: [{absent: {run_of: a, file: b, by: 1h}}]\ntasks: {a: {run: x}}",
		"name: x\ntriggers: [{every: 1h, overlap: maybe}]\ntasks: {a: {run: x}}",
	} {
		if s.Validate(plain(t, []byte(src))) == nil {
			t.Errorf("accepts %s", src)
		}
	}
	var walk func(at string, v map[string]any)
	walk = func(at string, v map[string]any) {
		if v == nil {
			return
		}
		for name, p := range asMap(v["properties"]) {
			if asMap(p)["description"] == "" || asMap(p)["description"] == nil {
				t.Errorf("%s.%s has no description", at, name)
			}
			walk(at+"."+name, asMap(p))
		}
		for _, sub := range []string{"additionalProperties", "items"} {
			walk(at, asMap(v[sub]))
		}
		if forms, ok := v["anyOf"].([]any); ok {
			for _, f := range forms {
				walk(at, asMap(f))
			}
		}
	}
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	walk("", root)
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// Every key of a future feature has its sentence in later, and every sentence has its key.
func TestLater(t *testing.T) {
	used := map[string]bool{}
	var walk func(sh *shape)
	walk = func(sh *shape) {
		if sh == nil {
			return
		}
		for _, k := range sh.keys {
			if k.later != "" && later[k.later] == "" {
				t.Errorf("no sentence for %s", k.later)
			}
			used[k.later] = true
			walk(k.shape)
		}
		for _, f := range sh.forms {
			walk(f)
		}
		walk(sh.item)
	}
	walk(grammar())
	for feature := range later {
		if !used[feature] {
			t.Errorf("%s is not in the grammar", feature)
		}
	}
}

// TestDecode: for any workflow, the stored form decodes to the parsed workflow, and every workflow that Parse
// accepts has a graph.
func TestDecode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := drawWorkflow(t)
		all, errs := Parse([]byte(src), Options{File: "f.yaml"})
		if len(errs) > 0 {
			t.Fatalf("%s\n%s", src, errs.Error())
		}
		roundTrip(t, all[0])
		if _, err := all[0].Graph(0); err != nil {
			t.Fatalf("%s\n%v", src, err)
		}
	})
}

// drawWorkflow makes a random valid workflow: tasks need earlier tasks, and read the outputs of the tasks
// that they need.
func drawWorkflow(t *rapid.T) string {
	text := rapid.StringMatching(`[ -~äöü]{0,20}`)
	quote := func(s string) string {
		b, _ := json.Marshal(strings.ReplaceAll(s, "${{", ""))
		return string(b)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "name: w\ndescription: %s\nparams: {p: {type: int, default: %d}}\n", quote(text.Draw(t, "description")), rapid.Int32().Draw(t, "p"))
	fmt.Fprintf(&b, "env:\n  A: %s\ndefaults:\n  retry: {max: %d, delay: %dms}\ntasks:\n", quote(text.Draw(t, "env")), rapid.IntRange(0, 9).Draw(t, "max"), rapid.IntRange(0, 1e9).Draw(t, "delay"))
	for i := range rapid.IntRange(1, 12).Draw(t, "tasks") {
		fmt.Fprintf(&b, "  t-%d:\n    run: %s\n    outputs: {v: int}\n", i, quote("x"+text.Draw(t, "run")))
		if i == 0 || rapid.Bool().Draw(t, "root") {
			continue
		}
		need := rapid.IntRange(0, i-1).Draw(t, "need")
		fmt.Fprintf(&b, "    needs: t-%d\n    env: {V: 'a ${{ tasks[\"t-%d\"].outputs.v + params.p }}'}\n", need, need)
		fmt.Fprintf(&b, "    if: %s\n", rapid.SampledFrom([]string{"always()", "success()", "failure() || params.p > 3",
			fmt.Sprintf(`tasks["t-%d"].outputs.v > 1`, need), fmt.Sprintf(`tasks["t-%d"].state == "failed"`, need)}).Draw(t, "if"))
	}
	return b.String()
}

func FuzzParse(f *testing.F) {
	bad, err := os.ReadFile("testdata/bad.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, section := range strings.Split("\n"+string(bad), "\n== ")[1:] {
		_, rest, _ := strings.Cut(section, "\n")
		src, _, _ := strings.Cut(rest, "----")
		f.Add([]byte(src))
	}
	whole, err := os.ReadFile("testdata/whole.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	triggers, err := os.ReadFile("testdata/triggers.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(triggers)
	f.Add([]byte(valid))
	f.Fuzz(func(t *testing.T, src []byte) {
		all, errs := Parse(src, Options{File: "f.yaml"})
		if (len(all) == 0) == (len(errs) == 0) || len(errs) > errorsMax {
			t.Fatalf("%d workflows and %d errors", len(all), len(errs))
		}
		for _, e := range errs {
			if e.Line < 1 || e.Column < 1 || e.Message == "" {
				t.Fatalf("%+v", e)
			}
		}
		for _, w := range all {
			roundTrip(t, w)
			if _, err := w.Graph(0); err != nil {
				t.Fatal(err)
			}
			for i := range w.Triggers {
				firesOrListens(t, &w.Triggers[i])
			}
		}
	})
}
