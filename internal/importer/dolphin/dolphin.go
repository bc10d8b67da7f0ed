// Package dolphin converts workflows of DolphinScheduler, and reports the differences.
//
//   - dolphin.go: [Convert], the two forms of files, and the fields of a workflow as a whole.
//   - task.go: the common fields of tasks, and what each type becomes.
//   - data.go: tasks with sql, http and commands of other programs.
//   - logic.go: conditions, switch, dependent and sub-workflows.
//   - refs.go: ${…} and $[…] in texts.
//   - schedule.go: schedules with expressions of Quartz.
//
// It reads the JSON that the page of DolphinScheduler exports (2.x and 3.x), and the YAML files of
// pydolphinscheduler. JSON is read as YAML.
package dolphin

import (
	"strconv"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// Convert reads an export, or a file of pydolphinscheduler.
func Convert(src []byte, opt importer.Options) (*importer.Result, error) {
	c, err := importer.Open(src, opt, "dolphinscheduler")
	if err != nil {
		return nil, err
	}
	in := &file{Conversion: c, byCode: map[string]string{}, byName: map[string]bool{}}
	for _, d := range c.Documents {
		in.all = append(in.all, in.flows(d.Value)...)
	}
	for _, f := range in.all {
		if err := f.convert(); err != nil {
			return nil, err
		}
	}
	return c.Close(), nil
}

// file is one file, and all workflows in it.
type file struct {
	*importer.Conversion
	byCode map[string]string // code of a workflow → its name
	byName map[string]bool
	all    []*flow
}

// flow is one workflow.
type flow struct {
	*importer.Sheet
	in       *file
	def      *importer.Fields // fields of the definition
	schedule *importer.Fields // nil if there is none
	name     string
	zone     string
	nodes    []*node
	byKey    map[string]*node  // by code, and by name
	params   map[string]string // names of global parameters: DolphinScheduler's → Skein's
	routed   map[*node]bool    // tasks that a branch of a switch chooses
}

// The keys of the parts of an exported workflow. The first name is that of version 3.3, the second that of
// earlier versions.
var (
	definitionKeys = []string{"workflowDefinition", "processDefinition"}
	relationKeys   = []string{"workflowTaskRelationList", "processTaskRelationList"}
)

// flows finds the workflows of a document.
func (in *file) flows(v *workflow.Value) (all []*flow) {
	list := []*workflow.Value{v}
	if v.Kind == workflow.ListValue {
		list = v.Vals
	}
	for _, one := range list {
		parts := importer.NewFields(one)
		def, exported := parts.Take(definitionKeys...), true
		if def == nil {
			def, exported = parts.Take("workflow", "process"), false
		}
		if one.Kind != workflow.MapValue || def == nil || def.Kind != workflow.MapValue || strings.TrimSpace(def.Get("name").Str()) == "" {
			in.DropDocument(one, "the document is no workflow of DolphinScheduler: it has no workflowDefinition, processDefinition or workflow with a name",
				"export the workflow on the page of workflow definitions, or use a file of pydolphinscheduler")
			continue
		}
		f := &flow{Sheet: in.Sheet(one), in: in, def: importer.NewFields(def), name: def.Get("name").Str(), zone: in.Zone, byKey: map[string]*node{},
			params: map[string]string{}, routed: map[*node]bool{}}
		f.def.Take("name")
		if s := parts.Take("schedule"); exported && s != nil && s.Kind == workflow.MapValue {
			f.schedule = importer.NewFields(s)
			if zone := s.Get("timezoneId").Str(); zone != "" {
				f.zone = zone
			}
		} else if zone := def.Get("timezone").Str(); zone != "" {
			f.zone = zone
		}
		if code := def.Get("code").Str(); code != "" {
			in.byCode[code] = f.name
		}
		in.byName[f.name] = true
		if exported {
			f.exportedTasks(parts)
		} else {
			f.yamlTasks(parts)
		}
		parts.Rest(nil, func(key *workflow.Value, why string) { f.Drop(key, why, "") })
		all = append(all, f)
	}
	return all
}

// exportedTasks reads the tasks of an export. An export has the tasks in one list, and their edges in
// another.
func (f *flow) exportedTasks(parts *importer.Fields) {
	if list := parts.Take("taskDefinitionList"); list != nil {
		for _, v := range list.Vals {
			in := importer.NewFields(v)
			n := f.node(v, in, in.Take("taskType").Str())
			if params := in.Take("taskParams"); params != nil {
				n.own = importer.NewFields(nested(params))
			}
			in.Take("version", "taskParamList", "taskParamMap")
		}
	}
	relations := parts.Take(relationKeys...)
	if relations == nil {
		return
	}
	for _, r := range relations.Vals {
		from, to := f.byKey[r.Get("preTaskCode").Str()], f.byKey[r.Get("postTaskCode").Str()]
		if from != nil && to != nil {
			to.needs(from)
		}
	}
}

// yamlTasks reads the tasks of a file of pydolphinscheduler. There, the fields of a task's type are next to
// the fields that all tasks have.
func (f *flow) yamlTasks(parts *importer.Fields) {
	list := parts.Take("tasks")
	if list == nil {
		return
	}
	deps := map[*node][]string{}
	for _, v := range list.Vals {
		in := importer.NewFields(v)
		n := f.node(v, in, in.Take("task_type").Str())
		n.own, n.yaml = in, true
		deps[n] = importer.Texts(in.Take("deps"))
	}
	for _, n := range f.nodes {
		for _, name := range deps[n] {
			if from := f.byKey[name]; from != nil {
				n.needs(from)
			} else {
				n.task.Drop("the task needs the task "+importer.Clip(name, 60)+", which does not exist", "")
			}
		}
	}
}

// nested parses JSON inside a text. Many fields of an export hold their values like this.
func nested(v *workflow.Value) *workflow.Value {
	text := strings.TrimSpace(v.Str())
	if v.Kind != workflow.ScalarValue || !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return v
	}
	docs, faults := workflow.ReadYAML([]byte(text), "")
	if len(faults) > 0 || len(docs) != 1 || docs[0].Value == nil {
		return v
	}
	place(docs[0].Value, v)
	return docs[0].Value
}

// place sets the position of a value, and of all values in it, to that of at.
func place(v, at *workflow.Value) {
	v.Line, v.Column = at.Line, at.Column
	for _, k := range v.Keys {
		place(k, at)
	}
	for _, e := range v.Vals {
		place(e, at)
	}
}

func (f *flow) convert() error {
	f.Description = f.def.Take("description").Str()
	f.globals()
	for _, n := range f.nodes {
		n.outputs()
	}
	f.policies()
	f.triggers()
	f.def.Rest(ignored, func(key *workflow.Value, why string) {
		if _, quiet := ignored[importer.Fold(key.Text)]; !quiet {
			f.Drop(key, why, "")
		}
	})
	// Convert tasks that choose other tasks first. They add needs to those tasks, and the needs of a task
	// decide which outputs it can read.
	for _, chooses := range []bool{true, false} {
		for _, n := range f.nodes {
			if chooses == (n.kind == "SWITCH" || strings.HasPrefix(n.kind, "CONDITION")) {
				n.convert()
			}
		}
	}
	for _, n := range f.nodes {
		n.finish()
	}
	return f.Finish(f.name)
}

// ignored holds the fields that do not affect how a workflow runs.
var ignored = foldedSet(`code version id projectCode createTime updateTime userId userName projectName locations tenantId tenantCode modifyBy warningGroupId user project tenant scheduleReleaseState releaseState run resourceList operator operateTime startTime endTime timezone onlineSchedule versions globalParamMap`)

func foldedSet(names string) map[string]string {
	all := map[string]string{}
	for name := range strings.FieldsSeq(names) {
		all[importer.Fold(name)] = ""
	}
	return all
}

// globals reads the global parameters.
func (f *flow) globals() {
	list := f.def.Take("globalParamList")
	if text := f.def.Take("globalParams"); list == nil && text != nil {
		list = nested(text)
	}
	f.def.Take("globalParamMap")
	if m := f.def.Take("param"); m != nil {
		for i, k := range m.Keys {
			f.global(m.Vals[i], k.Text, m.Vals[i].Str())
		}
	}
	if list == nil {
		return
	}
	for _, p := range list.Vals {
		f.global(p, p.Get("prop").Str(), p.Get("value").Str())
	}
}

func (f *flow) global(at *workflow.Value, name, value string) {
	if name == "" {
		return
	}
	key := importer.KeyName(name)
	if _, twice := f.params[name]; twice {
		return
	}
	if key != name {
		f.Approximate(at, "the parameter "+importer.Clip(name, 60)+" is called "+key+" here")
	}
	text, missing := f.text(nil, value)
	if missing != "" {
		f.Approximate(at, "the parameter "+key+": "+missing+"; its default is the literal text")
		text = importer.Lit(value)
	}
	p := importer.Param{Name: key}
	if plain, known := text.Const(); known {
		p.Default = &plain
	} else {
		p.Expr = text
	}
	f.Params = append(f.Params, p)
	f.params[name] = key
}

// policies converts the fields that concern a whole run.
func (f *flow) policies() {
	if n, ok := importer.Int(f.def.Take("timeout")); ok && n > 0 {
		f.Settings.Add("timeout", importer.Seconds(n*60))
	}
	switch v := f.def.Take("executionType"); strings.ToUpper(v.Str()) {
	case "", "PARALLEL":
	case "SERIAL_WAIT":
		f.Settings.Add("max_concurrent_runs", importer.Raw("1"))
	case "SERIAL_DISCARD":
		f.Settings.Add("max_concurrent_runs", importer.Raw("1"))
		f.Approximate(v, "executionType SERIAL_DISCARD: while a run is active, fires of the schedule are skipped, and a run that a person starts waits")
	default:
		f.Settings.Add("max_concurrent_runs", importer.Raw("1"))
		f.Approximate(v, "executionType "+importer.Clip(v.Str(), 30)+": one run at a time, in the order of their starts; give the workflow a queue with ordering: priority for another order")
	}
	if v := f.def.Take("warningType"); v != nil && !strings.EqualFold(v.Str(), "NONE") {
		f.warning(v)
	}
	if v := f.def.Take("flag"); strings.EqualFold(v.Str(), "NO") {
		f.Approximate(v, "the workflow was switched off in DolphinScheduler; pause it with skein workflow pause "+importer.WorkflowName(f.name))
	}
	if v := f.def.Take("releaseState"); v != nil && f.schedule == nil && !online(v) && f.def.Peek("schedule") == nil {
		f.Approximate(v, "the workflow was offline in DolphinScheduler; here it can be started as soon as it is applied")
	}
	f.def.Take("workerGroup")
}

// warning reports that a notification was dropped, because the file does not hold its group of receivers.
func (f *flow) warning(v *workflow.Value) {
	on := map[string]string{"FAILURE": "failed", "SUCCESS": "succeeded", "ALL": "failed, succeeded"}[strings.ToUpper(v.Str())]
	if on == "" {
		return
	}
	f.Drop(v, "warningType "+v.Str()+": the file does not contain the group of people", "create a channel with skein alert channel set, and write alerts: [{on: ["+on+"], to: CHANNEL}]")
}

func online(v *workflow.Value) bool {
	text := v.Str()
	return strings.EqualFold(text, "ONLINE") || text == "1"
}

func rawInt(n int64) importer.Raw { return importer.Raw(strconv.FormatInt(n, 10)) }

// taskOf finds a task by its code in all workflows of the file.
func (in *file) taskOf(code string) *node {
	for _, f := range in.all {
		if n := f.byKey[code]; n != nil {
			return n
		}
	}
	return nil
}
