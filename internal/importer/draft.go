package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"skein.dev/skein/internal/workflow"
)

// Draft is a workflow under construction.
type Draft struct {
	Name        string
	Description string
	Params      []Param
	Triggers    []Map
	Settings    Map // settings of the workflow, such as timeout
	Env         []Var
	Tasks       []*Task
}

// Param is a parameter. Other schedulers know only texts as values.
type Param struct {
	Name, Description string
	Default           *string // nil if a start must give a value
	Expr              Text    // alternative to Default: a text that is known only when a run starts
	Type              workflow.Type
	Enum              []string
}

// Var is a variable of an environment.
type Var struct {
	Name  string
	Value Text
}

// Run is the command of a task. One of the three fields is set.
type Run struct {
	Shell      string
	Argv       []string
	Lang, Code string
}

// Task is one task of a draft.
type Task struct {
	Name        string
	Description string
	Needs       []string
	If          string
	Each        *Each
	Run         Run
	Doing       // alternative to Run
	Dir         Text
	Env         []Var
	Outputs     []string // the outputs are texts, but AsList can make one a list
	Artifacts   []string
	Inputs      []Input
	Settings    Map // timeout, retry, resources

	at      *workflow.Value
	lists   map[string]bool // outputs that are JSON
	capture *capture
	notes   []string
	outcome Outcome
}

// Input is a file that the task gets from another task. To is its path in the working folder.
type Input struct{ To, Task, Name string }

// Approximate notes a difference between the source and the converted task.
func (t *Task) Approximate(note string) {
	if !slices.Contains(t.notes, note) {
		t.notes = append(t.notes, note)
	}
	if t.outcome == Converted {
		t.outcome = Approximated
	}
}

// Drop gives up the conversion of the task. The task stays in the graph, fails when it runs, and says why. So
// no task that needs it runs as if it had succeeded.
func (t *Task) Drop(reason, remedy string) {
	note := reason
	if remedy != "" {
		note += "; " + remedy
	}
	t.notes = append([]string{note}, slices.DeleteFunc(t.notes, func(s string) bool { return s == note })...)
	t.outcome = Dropped
}

// Dropped reports whether Drop was called.
func (t *Task) Dropped() bool { return t.outcome == Dropped }

// Need adds the named tasks to the task's needs. It adds no name twice.
func (t *Task) Need(names ...string) {
	for _, name := range names {
		if !slices.Contains(t.Needs, name) {
			t.Needs = append(t.Needs, name)
		}
	}
}

// Bind gives the task a variable with a value, and returns the variable's name. script is the text that will
// use the variable. The name does not occur in the script yet, so the script cannot overwrite the variable.
func (t *Task) Bind(hint string, value Text, script string) string {
	name := strings.ToUpper(KeyName(hint))
	for name == "PATH" || name == "HOME" || name == "IFS" || name == "PWD" || strings.HasPrefix(name, "SKEIN_") || strings.Contains(script, name) {
		name = "P_" + name
	}
	base := name
	for n := 2; ; n++ {
		i := slices.IndexFunc(t.Env, func(v Var) bool { return v.Name == name })
		switch {
		case i < 0:
			t.Env = append(t.Env, Var{name, value})
			return name
		case slices.Equal(t.Env[i].Value, value):
			return name
		}
		name = fmt.Sprintf("%s_%d", base, n)
	}
}

// giveUp sets the command of a dropped task.
func (t *Task) giveUp() {
	t.Run = Run{Shell: "echo " + QuoteShell(OneLine("this task was not imported: "+strings.ReplaceAll(t.notes[0], "${{", "$ {{"))) + " >&2\nexit 1"}
	t.Doing, t.Env, t.Dir, t.Settings, t.Artifacts, t.Inputs, t.capture = Doing{}, nil, nil, nil, nil, nil, nil
}

// same reads the file back with Skein's own reader, and compares the result with the draft.
func (d *Draft) same(source string) error {
	all, faults := workflow.Parse([]byte(source), workflow.Options{File: d.Name + ".yaml"})
	if len(faults) > 0 {
		return faultsOf(faults)
	}
	if len(all) != 1 || all[0].Name != d.Name || len(all[0].Tasks) != len(d.Tasks) || len(all[0].Triggers) != len(d.Triggers) || !sameEnv(all[0].Env, d.Env) {
		return errors.New("its name, tasks, triggers or variables would differ from those of the source")
	}
	for i, t := range d.Tasks {
		is := &all[0].Tasks[i]
		if is.Name != t.Name || !slices.Equal(is.Needs, t.Needs) || is.If != t.If || is.Dir != t.Dir.Template() || !sameEnv(is.Env, t.Env) ||
			is.Run.Shell != t.Run.Shell || is.Run.Lang != t.Run.Lang || is.Run.Code != t.Run.Code || !slices.Equal(is.Run.Argv, t.Run.Argv) ||
			!t.Each.same(is) || !t.Doing.same(is) || (t.Other == nil && !slices.Equal(is.Artifacts, t.Artifacts)) ||
			!slices.EqualFunc(is.Inputs, t.Inputs, func(a workflow.Input, b Input) bool { return a.Task == b.Task && a.Name == b.Name && a.To == b.To }) {
			return fmt.Errorf("its task %s would differ from the task of the source", t.Name)
		}
	}
	return nil
}

// faultsMax bounds the faults that are reported for a file that Skein refuses.
const faultsMax = 3

func faultsOf(faults workflow.Errors) error {
	var says []string
	for i, f := range faults {
		if i == faultsMax {
			says = append(says, fmt.Sprintf("and %d more", len(faults)-i))
			break
		}
		text := f.Message
		if f.Key != "" {
			text = f.Key + ": " + text
		}
		says = append(says, text)
	}
	return errors.New(strings.Join(says, ", "))
}

func sameEnv(is []workflow.KV, want []Var) bool {
	return slices.EqualFunc(is, want, func(kv workflow.KV, v Var) bool { return kv.Name == v.Name && kv.Value == v.Value.Template() })
}

// CheckTrigger returns the error that Skein would report for a trigger.
func CheckTrigger(m Map) error {
	d := Draft{Name: "t", Description: "t", Triggers: []Map{m}, Tasks: []*Task{{Name: "t", Run: Run{Shell: "true"}}}}
	_, err := d.render("", "")
	return err
}

// CheckSettings returns the error that Skein would report for the settings of a workflow. The settings may
// read parameters.
func CheckSettings(m Map, params []Param) error {
	d := Draft{Name: "t", Description: "t", Settings: m, Params: params, Tasks: []*Task{{Name: "t", Run: Run{Shell: "true"}}}}
	_, err := d.render("", "")
	return err
}
