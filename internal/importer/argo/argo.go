// Package argo turns the files of Argo Workflows into workflows, and reports the differences.
//
//   - argo.go: [Convert], and the fields of a workflow as a whole; reasons.go: why a field is dropped.
//   - expand.go: templates that call templates become one flat graph.
//   - leaf.go: containers and scripts; special.go: templates without a process; loop.go: withItems and
//     similar; sync.go: mutexes and semaphores.
//   - refs.go: {{…}}; condition.go: depends and when.
package argo

import (
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// Options holds settings that the file does not contain.
type Options struct {
	importer.Options
	Run bool // commands and scripts of images run on the node; else they are dropped
}

// Convert reads a file of Argo Workflows.
func Convert(src []byte, opt Options) (*importer.Result, error) {
	c, err := importer.Open(src, opt.Options, "argo")
	if err != nil {
		return nil, err
	}
	shared := map[string]*workflow.Value{} // specs of the templates of the file, by name
	maps := map[string]*workflow.Value{}
	for _, d := range c.Documents {
		switch name := d.Value.Get("metadata").Get("name").Str(); d.Value.Get("kind").Str() {
		case "WorkflowTemplate", "ClusterWorkflowTemplate":
			shared[name] = d.Value.Get("spec")
		case "ConfigMap":
			maps[name] = d.Value.Get("data")
		}
	}
	for _, d := range c.Documents {
		kind := d.Value.Get("kind").Str()
		switch kind {
		case "Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow":
			b := &sheet{Sheet: c.Sheet(d.Value), opt: opt, shared: shared, params: map[string]string{}, maps: maps, lists: map[string]func() (string, error){}}
			if err := b.document(kind, d.Value); err != nil {
				return nil, err
			}
		default:
			c.DropDocument(d.Value, "kind "+importer.Clip(kind, 40)+" is not a workflow", "the importer reads Workflow, WorkflowTemplate and CronWorkflow")
		}
	}
	return c.Close(), nil
}

// sheet is the conversion of one document.
type sheet struct {
	*importer.Sheet
	opt       Options
	shared    map[string]*workflow.Value
	templates map[string]*workflow.Value
	params    map[string]string // parameter names: Argo's → Skein's
	text      string            // all texts of the document, to find out which values are read
	calls     int
	lists     map[string]func() (string, error) // values that may be JSON lists → their lists
	maps      map[string]*workflow.Value        // ConfigMaps of the file, by name
	parallel  int64                             // parallelism of the whole workflow
	limits    []limit
	limited   bool // some foreach has a limit
}

func (d *sheet) drop(prefix string) func(key *workflow.Value, why string) {
	return func(key *workflow.Value, why string) { d.Drop(key, prefix+why, "") }
}

func (d *sheet) document(kind string, v *workflow.Value) error {
	f := importer.NewFields(v)
	f.Take("apiVersion")
	f.Take("kind")
	name := d.metadata(f.Take("metadata"))
	spec := f.Take("spec")
	if kind == "CronWorkflow" {
		in := importer.NewFields(spec)
		d.cron(in)
		spec = in.Take("workflowSpec")
		in.Rest(reasons(), d.drop("spec."))
	}
	f.Rest(reasons(), d.drop(""))
	if spec == nil {
		d.Note("the document has no spec")
		return d.Finish(name)
	}
	d.spec(spec)
	return d.Finish(name)
}

func (d *sheet) metadata(v *workflow.Value) string {
	f := importer.NewFields(v)
	name := f.Take("name").Str()
	if g := f.Take("generateName"); name == "" {
		name = strings.TrimRight(g.Str(), "-")
	}
	if notes := f.Take("annotations"); notes != nil {
		in := importer.NewFields(notes)
		d.Description = strings.TrimSpace(in.Take("workflows.argoproj.io/title").Str() + "\n" + in.Take("workflows.argoproj.io/description").Str())
		in.Take("workflows.argoproj.io/version")
		in.Rest(nil, func(key *workflow.Value, _ string) {
			d.Drop(key, "metadata.annotations: workflows have no annotations", "write the text into description")
		})
	}
	f.Rest(reasons(), d.drop("metadata."))
	return name
}

// cron makes the triggers of a CronWorkflow.
func (d *sheet) cron(f *importer.Fields) {
	zone := f.Take("timezone").Str()
	if zone == "" {
		zone = d.opt.Zone
	}
	if zone == "" {
		zone = "UTC"
	}
	overlap := map[string]string{"": "allow", "Allow": "allow", "Forbid": "skip", "Replace": "cancel_running"}[f.Take("concurrencyPolicy").Str()]
	paused := importer.IsTrue(f.Take("suspend"))
	late, _ := importer.Int(f.Take("startingDeadlineSeconds"))
	add := func(at *workflow.Value, expr string) {
		m := importer.Map{{Key: "cron", Value: importer.Raw(importer.DoubleQuoted(expr))}, {Key: "timezone", Value: zone}, {Key: "overlap", Value: overlap}}
		if late > 0 {
			m.Add("catchup", "latest")
			m.Add("delay_tolerance", importer.Seconds(late))
		} else {
			m.Add("catchup", "none")
		}
		if paused {
			m.Add("paused", importer.Raw("true"))
		}
		if err := importer.CheckTrigger(m); err != nil {
			d.Drop(at, "schedule: "+err.Error(), "write the trigger by hand")
			return
		}
		d.Triggers = append(d.Triggers, m)
	}
	for _, v := range []*workflow.Value{f.Take("schedule"), f.Take("schedules")} {
		switch {
		case v.Null():
		case v.Kind == workflow.ListValue:
			for _, e := range v.Vals {
				add(e, e.Str())
			}
		default:
			add(v, v.Str())
		}
	}
	good, bad := f.Take("successfulJobsHistoryLimit"), f.Take("failedJobsHistoryLimit")
	n, _ := importer.Int(good)
	m, _ := importer.Int(bad)
	if keep := max(n, m); keep > 0 {
		d.Settings.Add("retention", importer.Map{{Key: "runs", Value: number(keep)}})
		at := good
		if at == nil {
			at = bad
		}
		if n != m {
			d.Approximate(at, "history limits: one number of runs is kept, and it counts succeeded and failed runs together")
		}
	}
}

// spec converts the spec. All three kinds of document have the same one.
func (d *sheet) spec(v *workflow.Value) {
	if ref := v.Get("workflowTemplateRef"); ref != nil {
		d.referred(v, ref)
		return
	}
	d.index(v)
	f := importer.NewFields(v)
	entry, exit := f.Take("entrypoint"), f.Take("onExit")
	f.Take("templates")
	d.arguments(f.Take("arguments"))
	if v := f.Take("activeDeadlineSeconds"); v != nil {
		if n, ok := importer.Int(v); ok && n > 0 {
			d.Settings.Add("timeout", importer.Seconds(n))
		} else {
			d.Drop(v, "activeDeadlineSeconds: the value is not a number", "write timeout: 10m")
		}
	}
	d.paused(f.Take("suspend"))
	d.synchronize(f.Take("synchronization"))
	if v := f.Take("parallelism"); v != nil {
		d.parallel = d.parallelism(v, "spec.parallelism")
	}
	f.Rest(reasons(), d.drop("spec."))
	if entry == nil {
		d.Note("the document has no entrypoint: its templates are used only where other documents of this file refer to them")
		return
	}
	all := &scope{sheet: d}
	d.call(call{at: entry, name: entry.Str(), template: d.templates[entry.Str()], outer: all, alone: true})
	if exit != nil {
		d.call(call{at: exit, name: "on-exit", template: d.templates[exit.Str()], outer: all, alone: true,
			needs: d.Leaves(0), cond: "always()"})
	}
	d.limitsRead()
}

func (d *sheet) paused(v *workflow.Value) {
	if importer.IsTrue(v) {
		d.Drop(v, "spec.suspend: a run does not begin suspended", "pause the run after its start: skein run pause")
	}
}

// referred converts a workflow that takes its spec from a template and has arguments of its own.
func (d *sheet) referred(v, ref *workflow.Value) {
	name := ref.Get("name").Str()
	spec := d.shared[name]
	if spec == nil || spec.Get("workflowTemplateRef") != nil {
		d.callsTemplate(v, ref)
		return
	}
	d.arguments(v.Get("arguments"))
	whole := &workflow.Value{Kind: workflow.MapValue, Line: spec.Line, Column: spec.Column}
	for i, k := range spec.Keys {
		if own := v.Get(k.Text); own == nil || k.Text == "arguments" {
			whole.Keys, whole.Vals = append(whole.Keys, k), append(whole.Vals, spec.Vals[i])
		}
	}
	for i, k := range v.Keys {
		if k.Text != "workflowTemplateRef" && k.Text != "arguments" {
			whole.Keys, whole.Vals = append(whole.Keys, k), append(whole.Vals, v.Vals[i])
		}
	}
	d.spec(whole)
}

// index collects the templates and the settings of the document.
func (d *sheet) index(v *workflow.Value) {
	d.templates = map[string]*workflow.Value{}
	if list := v.Get("templates"); list != nil {
		for _, t := range list.Vals {
			d.templates[t.Get("name").Str()] = t
		}
	}
	var b strings.Builder
	var walk func(v *workflow.Value)
	walk = func(v *workflow.Value) {
		b.WriteString(v.Text + "\n")
		for _, e := range v.Vals {
			walk(e)
		}
	}
	walk(v)
	d.text = b.String()
}

// arguments converts the parameters. The first declaration of a name is used, so a workflow takes precedence
// over its template.
func (d *sheet) arguments(v *workflow.Value) {
	f := importer.NewFields(v)
	if list := f.Take("parameters"); list != nil {
		for _, p := range list.Vals {
			d.parameter(p)
		}
	}
	f.Rest(reasons(), d.drop("arguments."))
}

func (d *sheet) parameter(v *workflow.Value) {
	f := importer.NewFields(v)
	name := f.Take("name").Str()
	if d.params[name] != "" || name == "" {
		return
	}
	p := importer.Param{Name: importer.KeyName(name), Description: f.Take("description").Str()}
	for _, o := range d.Params {
		if o.Name == p.Name {
			p.Name += "_2"
		}
	}
	if value := v.Get("value"); value != nil && value.Kind == workflow.ScalarValue {
		text := value.Str()
		p.Default = &text
		if strings.Contains(text, "{{") {
			p.Default = nil
			d.Drop(value, "the default of "+importer.Clip(name, 60)+" contains {{ }}, so each start must give the parameter", "write a literal default")
		}
	}
	f.Take("value")
	p.Enum = importer.Texts(f.Take("enum"))
	f.Rest(map[string]string{"valuefrom": "the importer does not read values from elsewhere; each start must give the parameter", "globalname": "outputs belong to tasks, and have no global name"}, d.drop("parameter "+name+": "))
	if p.Name != name {
		d.Approximate(v, "the parameter "+importer.Clip(name, 60)+" is called "+p.Name+" here")
	}
	d.params[name] = p.Name
	d.Params = append(d.Params, p)
	value := importer.Member("params", p.Name)
	d.lists[value] = func() (string, error) { return value, d.ListParam(p.Name) }
}
