package dolphin

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// call converts a task that runs another workflow.
func (n *node) call() {
	name := n.own.Take("workflow_name", "process_definition_name").Str()
	if m := workflowFile.FindStringSubmatch(name); m != nil {
		name = strings.TrimSuffix(strings.TrimSuffix(m[1][strings.LastIndexByte(m[1], '/')+1:], ".yaml"), ".yml")
	}
	if code := n.own.Take("workflowDefinitionCode", "processDefinitionCode").Str(); name == "" && code != "" {
		if name = n.f.in.byCode[code]; name == "" {
			n.task.Drop("the task runs the workflow with the code "+importer.Clip(code, 40)+", which is not in this file", "export both together, or write workflow: NAME")
			return
		}
	}
	if name == "" {
		n.task.Drop("the task does not name the workflow that it runs", "write workflow: NAME")
		return
	}
	n.task.Call = &importer.Call{Workflow: importer.WorkflowName(name)}
	for _, key := range sortedKeys(n.locals) {
		if value, missing := n.f.withoutLocals(n, n.locals[key]); missing == "" {
			n.task.Call.With = append(n.task.Call.With, importer.Var{Name: importer.KeyName(key), Value: value})
		} else {
			n.task.Approximate("localParams: " + missing)
		}
	}
	if !n.f.in.byName[name] {
		n.task.Approximate("the task calls the workflow " + n.task.Call.Workflow + ": import that workflow too")
	}
	if err := importer.CheckTask(n.task); err != nil {
		n.task.Drop(err.Error(), "write the task by hand")
	}
}

var workflowFile = regexp.MustCompile(`^\$WORKFLOW\{"(.*)"\}$`)

// group is one group of a condition: its items, and whether all of them or one must hold.
type group struct {
	and   bool
	items []*workflow.Value
}

// groupsOf reads the groups of a condition from an export or from YAML. and says whether all groups or one
// must hold.
func (n *node) groupsOf() (and bool, all []group, ok bool) {
	top := n.own
	if d := n.own.Take("dependence"); d != nil && !n.yaml {
		top = importer.NewFields(nested(d))
	}
	is := func(v *workflow.Value) bool { return strings.EqualFold(v.Str(), "AND") }
	and = is(top.Take("relation", "op"))
	list := top.Take("dependTaskList", "groups")
	if list == nil || len(list.Vals) == 0 {
		return and, nil, false
	}
	for _, g := range list.Vals {
		in := importer.NewFields(g)
		one := group{and: is(in.Take("relation", "op"))}
		if items := in.Take("dependItemList", "groups"); items != nil {
			one.items = items.Vals
		}
		if len(one.items) == 0 {
			return and, nil, false
		}
		all = append(all, one)
	}
	return and, all, true
}

// joined joins conditions by && or ||.
func joined(and bool, all []string) string {
	op := " || "
	if and {
		op = " && "
	}
	if len(all) == 1 {
		return all[0]
	}
	return "(" + strings.Join(all, op) + ")"
}

// conditions converts a task that chooses the next tasks by the end states of earlier ones.
func (n *node) conditions() {
	and, groups, ok := n.groupsOf()
	if !ok {
		n.task.Drop("the condition is empty, or has a form that the importer does not know", "write switch with a condition over tasks.NAME.state")
		return
	}
	var tops []string
	for _, g := range groups {
		var parts []string
		for _, item := range g.items {
			o := n.f.byKey[firstText(item.Get("depTaskCode").Str(), item.Get("task").Str())]
			if o == nil {
				n.task.Drop("the condition names a task that does not exist", "write switch by hand")
				return
			}
			n.needs(o)
			n.task.Need(o.task.Name)
			state := "failed"
			if strings.EqualFold(item.Get("status").Str(), "SUCCESS") || n.yaml && importer.IsTrue(item.Get("flag")) {
				state = "succeeded"
			}
			parts = append(parts, importer.StateIn(o.task.Name, state))
		}
		tops = append(tops, joined(g.and, parts))
	}
	result := importer.NewFields(nil)
	if r := n.own.Take("conditionResult"); r != nil {
		result = importer.NewFields(nested(r))
	}
	good, bad := n.target(result.Take("successNode"), "success_task"), n.target(result.Take("failedNode"), "failed_task")
	if good == nil || bad == nil {
		n.task.Drop("the task does not name one task for each result", "write switch by hand")
		return
	}
	n.branches([]importer.Map{{{Key: "if", Value: joined(and, tops)}, {Key: "then", Value: good.task.Name}}, {{Key: "else", Value: bad.task.Name}}}, []*node{good, bad})
	n.always = true
	n.task.Approximate("if a needed task fails, the run ends as failed, although this task handles the failure")
}

func firstText(all ...string) string {
	for _, text := range all {
		if text != "" {
			return text
		}
	}
	return ""
}

// target returns the task that a result names. An export names it by code in a list, YAML by name under a
// key.
func (n *node) target(list *workflow.Value, key string) *node {
	if n.yaml {
		return n.f.byKey[n.own.Take(key).Str()]
	}
	if texts := importer.Texts(list); len(texts) == 1 {
		return n.f.byKey[texts[0]]
	}
	return nil
}

// branches makes the task a switch. Each task that a branch names needs the switch.
func (n *node) branches(all []importer.Map, to []*node) {
	for _, o := range to {
		if n == o || n.after(o) {
			n.task.Drop("the task chooses a task that comes before it", "write switch by hand")
			return
		}
	}
	for _, o := range to {
		o.needs(n)
		o.task.Need(n.task.Name)
	}
	count := len(all)
	n.task.Other = &importer.Other{Key: "switch", Value: all, Same: func(is *workflow.Task) bool { return len(is.Switch) == count }}
}

// comparison matches one comparison in the condition of a switch.
var comparison = regexp.MustCompile(`^\s*(?:"?\$\{([A-Za-z_][A-Za-z0-9_]*)\}"?|'\$\{([A-Za-z_][A-Za-z0-9_]*)\}')\s*(===?|!==?|<=|>=|<|>)\s*(-?[0-9]+(?:\.[0-9]+)?|"[^"$\\]*"|'[^'$\\]*')\s*$`)

// choose converts a task that chooses the next tasks by a condition over parameters.
func (n *node) choose() {
	list, otherwise := n.own.Take("condition"), (*node)(nil)
	if !n.yaml {
		in := importer.NewFields(nil)
		if r := n.own.Take("switchResult"); r != nil {
			in = importer.NewFields(nested(r))
		}
		list = in.Take("dependTaskList")
		if next := in.Take("nextNode"); next.Str() != "" {
			otherwise = n.f.byKey[next.Str()]
		} else if texts := importer.Texts(next); len(texts) == 1 {
			otherwise = n.f.byKey[texts[0]]
		}
	}
	var all []importer.Map
	var to []*node
	for _, b := range listOf(list) {
		next := b.Get("nextNode")
		o := n.f.byKey[firstText(next.Str(), b.Get("task").Str(), strings.Join(importer.Texts(next), ","))]
		text := b.Get("condition").Str()
		if o == nil {
			n.task.Drop("the task names a task that does not exist", "write switch by hand")
			return
		}
		if text == "" {
			otherwise = o
			continue
		}
		cel, why := n.condition(text)
		if why != "" {
			n.task.Drop(why, "write switch by hand")
			return
		}
		all, to = append(all, importer.Map{{Key: "if", Value: cel}, {Key: "then", Value: o.task.Name}}), append(to, o)
	}
	if otherwise != nil {
		all, to = append(all, importer.Map{{Key: "else", Value: otherwise.task.Name}}), append(to, otherwise)
	}
	if len(all) == 0 {
		n.task.Drop("the task names no other task", "write switch by hand")
		return
	}
	n.branches(all, to)
}

func listOf(v *workflow.Value) []*workflow.Value {
	if v == nil {
		return nil
	}
	return v.Vals
}

// condition converts comparisons of parameters with values to CEL. If it cannot, why says the reason.
func (n *node) condition(text string) (cel, why string) {
	var ors []string
	for or := range strings.SplitSeq(text, "||") {
		var ands []string
		for and := range strings.SplitSeq(or, "&&") {
			m := comparison.FindStringSubmatch(and)
			if m == nil {
				return "", "the condition " + importer.Clip(importer.OneLine(text), 60) + " has more than comparisons of parameters with values"
			}
			value, missing, known := n.f.reference(n, "${"+m[1]+m[2]+"}")
			switch {
			case missing != "":
				return "", missing
			case !known:
				return "", "${" + m[1] + m[2] + "} in the condition is no parameter of the workflow"
			}
			op := strings.Replace(strings.Replace(m[3], "===", "==", 1), "!==", "!=", 1)
			if m[4][0] == '"' || m[4][0] == '\'' {
				ands = append(ands, value.CEL()+" "+op+" "+strconv.Quote(m[4][1:len(m[4])-1]))
			} else {
				ands = append(ands, "double("+value.CEL()+") "+op+" double("+m[4]+")")
			}
		}
		ors = append(ors, strings.Join(ands, " && "))
	}
	return strings.Join(ors, " || "), ""
}

// spans maps the periods that a dependent task can wait for to values of Skein's key within.
var spans = map[string]string{"today": "day", "thisWeek": "week", "thisMonth": "month", "currentHour": "hour"}

// dependent converts a task that waits for runs of other workflows.
func (n *node) dependent() {
	and, groups, ok := n.groupsOf()
	if !ok {
		n.task.Drop("the task does not say what it waits for", "write dependent: {workflow: NAME}")
		return
	}
	var items []*workflow.Value
	several := false
	for _, g := range groups {
		several = several || !g.and && len(g.items) > 1
		items = append(items, g.items...)
	}
	if several || !and && len(groups) > 1 {
		n.task.Drop("the task waits for one of several runs", "write a task with dependent for each run, and a task with if after them")
		return
	}
	var waits []*importer.Other
	for _, item := range items {
		w, why := n.waitFor(item)
		if why != "" {
			n.task.Drop(why, "write dependent by hand")
			return
		}
		waits = append(waits, w)
	}
	if len(waits) == 1 {
		n.task.Other = waits[0]
		return
	}
	needs := n.task.Needs
	n.task.Needs = nil
	for i, w := range waits {
		t := n.f.Task(n.at, fmt.Sprintf("%s-%d", n.task.Name, i+1))
		t.Other = w
		t.Need(needs...)
		n.task.Need(t.Name)
	}
	n.task.Run = importer.Run{Shell: "true"}
	n.task.Approximate("the task waits for several runs: a separate task waits for each run, and this task comes after them")
}

// waitFor converts one of the runs that a dependent task waits for.
func (n *node) waitFor(item *workflow.Value) (*importer.Other, string) {
	name := item.Get("workflow_name").Str()
	if m := workflowFile.FindStringSubmatch(name); m != nil {
		name = strings.TrimSuffix(strings.TrimSuffix(m[1][strings.LastIndexByte(m[1], '/')+1:], ".yaml"), ".yml")
	}
	if code := item.Get("definitionCode").Str(); code != "" {
		if name = n.f.in.byCode[code]; name == "" {
			return nil, "the task waits for the workflow with the code " + importer.Clip(code, 40) + ", which is not in this file"
		}
	}
	if name == "" {
		return nil, "the task does not name the workflow that it waits for"
	}
	when := firstText(item.Get("dateValue").Str(), item.Get("dependent_date").Str(), "today")
	within := spans[when]
	if within == "" {
		return nil, "the task waits for a run of another time (" + importer.Clip(when, 30) + "); here both runs must belong to the same hour, day, week or month"
	}
	target := importer.WorkflowName(name)
	if target == importer.WorkflowName(n.f.name) {
		return nil, "the task waits for a run of its own workflow"
	}
	m := importer.Map{{Key: "workflow", Value: target}}
	task := item.Get("dependent_task_name").Str()
	switch code := item.Get("depTaskCode").Str(); code {
	case "", "0", "-1":
	default:
		if o := n.f.in.taskOf(code); o != nil {
			task = o.task.Name
		} else {
			return nil, "the task waits for a task that is not in this file"
		}
	}
	if task != "" && task != "0" {
		m.Add("task", task)
	}
	m.Add("within", within)
	m.Add("timezone", n.f.zone)
	return &importer.Other{Key: "dependent", Value: m, Same: func(is *workflow.Task) bool { return is.Dependent != nil && is.Dependent.Workflow == target }}, ""
}
