// Package dagu converts files of Dagu to workflows, and reports the differences.
//
//   - dagu.go: [Convert], and the fields of a DAG as a whole.
//   - schedule.go, values.go: its schedules, parameters and variables.
//   - step.go, graph.go: its steps, what they run and what they need, handlerOn.
//   - each.go: foreach and parallel; special.go: sub-DAGs, requests, approvals.
//   - refs.go: ${…} in texts.
//   - reasons.go: the fields that are dropped, and why.
//
// Keys are recognised in their old form, camelCase, and in their new form, snake_case.
package dagu

import (
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// Convert reads a file of Dagu: one DAG per document.
func Convert(src []byte, opt importer.Options) (*importer.Result, error) {
	c, err := importer.Open(src, opt, "dagu")
	if err != nil {
		return nil, err
	}
	for i, d := range c.Documents {
		if d.Value.Kind != workflow.MapValue {
			c.DropDocument(d.Value, "the document is no DAG: a DAG is a mapping with steps", "check that it is the right file")
			continue
		}
		b := &dag{Sheet: c.Sheet(d.Value), conv: c, steps: map[string]*step{}, env: map[string]importer.Text{}, params: map[string]string{}}
		if err := b.convert(d.Value, fileName(opt.Path, i)); err != nil {
			return nil, err
		}
	}
	return c.Close(), nil
}

// fileName returns the name of a DAG that the file does not name: the name of the file.
func fileName(path string, i int) string {
	base := path[strings.LastIndexByte(path, '/')+1:]
	base = strings.TrimSuffix(strings.TrimSuffix(base, ".yaml"), ".yml")
	if base == "" || base == "-" || i > 0 {
		return "dag"
	}
	return base
}

// dag is one DAG.
type dag struct {
	*importer.Sheet
	conv   *importer.Conversion
	steps  map[string]*step // the steps, by name and by ID
	order  []*step
	env    map[string]importer.Text // variables that the file sets
	params map[string]string        // parameter names: Dagu's → Skein's
	shell  []string
	dir    importer.Text
	limits importer.Map // default settings of the steps
	labels importer.Map // labels that a worker of its steps must have
	name   string
}

func (d *dag) convert(v *workflow.Value, name string) error {
	f := importer.NewFields(v)
	if n := f.Take("name").Str(); n != "" {
		name = n
	}
	d.name = name
	d.Description = f.Take("description").Str()
	d.schedules(f)
	d.parameters(f.Take("params"))
	d.constants(f.Take("consts"))
	d.environment(f.Take("env"))
	d.policies(f)
	d.graph(f)
	f.Rest(reasons(), func(key *workflow.Value, why string) { d.Drop(key, why, "") })
	return d.Finish(name)
}

// policies converts the fields that concern a whole run.
func (d *dag) policies(f *importer.Fields) {
	if n, ok := importer.Int(f.Take("maxActiveRuns")); ok && n > 0 {
		d.Settings.Add("max_concurrent_runs", rawInt(n))
	}
	if n, ok := importer.Int(f.Take("timeoutSec")); ok && n > 0 {
		d.Settings.Add("timeout", importer.Seconds(n))
	}
	if v := f.Take("queue"); v != nil {
		set := importer.Map{{Key: "queue", Value: v.Str()}}
		if err := importer.CheckSettings(set, nil); err != nil {
			d.Drop(v, "queue: "+err.Error(), "write queue: NAME")
		} else {
			d.Settings = append(d.Settings, set...)
			d.Approximate(v, "queue: create it with skein queue set "+v.Str()+" --limit N")
		}
	}
	d.labels = d.selector(f.Take("workerSelector"))
	var keep importer.Map
	if n, ok := importer.Int(f.Take("histRetentionDays")); ok && n > 0 {
		keep.Add("age", importer.Seconds(n*86400))
	}
	if n, ok := importer.Int(f.Take("histRetentionRuns")); ok && n > 0 {
		keep.Add("runs", rawInt(n))
	}
	if len(keep) > 0 {
		d.Settings.Add("retention", keep)
	}
	if v := f.Take("shell"); v != nil {
		d.shell = words(v)
	}
	d.shell = append(d.shell, importer.Texts(f.Take("shellArgs"))...)
	if v := f.Take("workingDir"); v != nil && v.Text != "." {
		d.dir = d.value(v, v.Str(), nil)
	}
	if v := f.Take("delaySec"); v != nil && v.Str() != "0" {
		d.Drop(v, "delaySec: a run begins at once when its trigger fires", "write sleep at the beginning of the first task, or change the schedule")
	}
	if v := f.Take("defaults"); v != nil {
		in := importer.NewFields(v)
		if r := d.retry(in.Take("retryPolicy")); r != nil {
			d.limits.Add("retry", r)
		}
		if n, ok := importer.Int(in.Take("timeoutSec")); ok && n > 0 {
			d.limits.Add("timeout", importer.Seconds(n))
		}
		if len(d.limits) > 0 {
			d.Settings.Add("defaults", d.limits)
		}
		in.Rest(reasons(), func(key *workflow.Value, why string) { d.Drop(key, "defaults."+why, "") })
	}
}

// words returns a program with its arguments, from a list or from one line.
func words(v *workflow.Value) []string {
	if v.Kind == workflow.ListValue {
		return importer.Texts(v)
	}
	return strings.Fields(v.Str())
}

// selector returns the labels that a worker must have.
func (d *dag) selector(v *workflow.Value) importer.Map {
	if v.Null() {
		return nil
	}
	var m importer.Map
	for i, k := range v.Keys {
		m.Add(k.Text, v.Vals[i].Str())
	}
	if len(m) == 0 || importer.CheckTask(&importer.Task{Settings: importer.Map{{Key: "labels", Value: m}}}) != nil {
		d.Drop(v, "workerSelector: the value is no mapping of labels", "write labels: {disk: ssd}")
		return nil
	}
	d.Approximate(v, "workerSelector: start workers with --label "+m[0].Key+"="+m[0].Value.(string)+"; the task waits until such a worker is attached")
	return m
}
