package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
)

// Workflow is a checked definition. Its JSON is the canonical form that is stored with a version; [Decode]
// reads it back. A Workflow is never changed after it was made, so several goroutines may use it.
type Workflow struct {
	Namespace   string   `json:"namespace"`
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Tags        []KV     `json:"tags,omitempty"` // sorted by key
	Params      []Param  `json:"params,omitempty"`
	Env         []KV     `json:"env,omitempty"`
	Priority    string   `json:"priority,omitempty"`   // the name of a level; "" is medium
	OnFailure   string   `json:"on_failure,omitempty"` // "" is continue
	Timeout     Duration `json:"timeout,omitempty"`    // bound of the time of the run; 0 if there is none
	Files       []string `json:"files,omitempty"`      // globs
	Defaults    Defaults `json:"defaults,omitzero"`
	// MaxRuns is the largest number of active runs; 0 means any number.
	MaxRuns    int32     `json:"max_concurrent_runs,omitempty"`
	Retention  Retention `json:"retention,omitzero"`    // when finished runs are deleted
	Queue      string    `json:"queue,omitempty"`       // the named queue of the runs
	Locks      []string  `json:"locks,omitempty"`       // names, which may contain ${{ }}
	LockPolicy string    `json:"lock_policy,omitempty"` // wait | fail; "" is wait
	Triggers   []Trigger `json:"triggers,omitempty"`
	Alerts     []Alert   `json:"alerts,omitempty"`
	// Offers are the other namespaces whose workflows may call this one and wait for its runs; "*" means all.
	// It is nil if the rights of the authors of those workflows decide.
	Offers []string `json:"offers,omitzero"`
	Tasks  []Task   `json:"tasks"` // in the order of the file
	// Origin is the absolute path of the workflow file's folder on the machine that applied it, or "" if the
	// workflow came over the API. Tasks run in this folder if it exists on the worker's machine. Parse leaves
	// it empty.
	Origin string `json:"origin,omitempty"`
	// Git says from which commit the workflow comes, or nil if it does not come from a git source. Parse
	// leaves it nil.
	Git *Git `json:"git,omitempty"`
	// Classes are the resource classes that the workflow names, except built-in ones, with their values when
	// the file was read. Without Options.Classes they have no values, and the definition must not be stored.
	Classes []Class `json:"classes,omitempty"`
	// Emitted says that a task of another workflow has made this one. Versions without runs need not be kept.
	Emitted bool `json:"emitted,omitempty"`

	exprs *derived // computed from the fields above at the first use
}

// Git is the place of a workflow file in a git repository.
type Git struct {
	Source string `json:"source"` // the name of the git source, in the namespace of the workflow
	Commit string `json:"commit"` // the commit with which this version came
	File   string `json:"file"`   // the path of the file in the folder of the source
}

// Retention says which finished runs are deleted: those older than Age, and all except the newest Runs. 0
// means the cluster's default.
type Retention struct {
	Age  Duration `json:"age,omitempty"`
	Runs int64    `json:"runs,omitempty"`
}

// Defaults holds the values of keys that a task leaves out.
type Defaults struct {
	Retry     *Retry    `json:"retry,omitempty"`
	Timeout   *Duration `json:"timeout,omitempty"`
	KillGrace *Duration `json:"kill_grace,omitempty"`
	OnTimeout string    `json:"on_timeout,omitempty"`
	OnLost    string    `json:"on_lost,omitempty"`
	Resources *dag.Need `json:"resources,omitempty"`
	StartBy   *Duration `json:"start_deadline,omitempty"`
	Priority  string    `json:"priority,omitempty"`
	Access    *Access   `json:"access,omitempty"`
}

// Task is one task as it is written in the file. Keys that it leaves out have the values of Defaults.
type Task struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Needs       []string `json:"needs,omitempty"`
	Foreach     []Level  `json:"foreach,omitempty"`
	// Parallel is the largest number of instances at one time; 0 means all.
	Parallel  int32     `json:"parallel,omitempty"`
	If        string    `json:"if,omitempty"` // CEL, without ${{ }}; "" is success()
	Run       Run       `json:"run,omitzero"`
	Wait      *Wait     `json:"wait,omitempty"`
	Approval  *Approval `json:"approval,omitempty"`
	Switch    []Branch  `json:"switch,omitempty"`
	Call      *Call     `json:"call,omitempty"`
	Made      *Made     `json:"made,omitempty"`
	HTTP      *HTTP     `json:"http,omitempty"`
	Dependent *Needed   `json:"dependent,omitempty"`
	Notify    *Notify   `json:"notify,omitempty"`
	Kind      string    `json:"kind,omitempty"`  // the kind of the task; the task then has no Run
	House     bool      `json:"house,omitempty"` // whether Kind is a kind of this program
	With      []Given   `json:"with,omitempty"`  // input of Kind
	// Patience bounds how long the process of a kind is started again. 0 means the default.
	Patience  Duration  `json:"patience,omitempty"`
	Dir       string    `json:"dir,omitempty"`
	Env       []KV      `json:"env,omitempty"`
	Outputs   []Output  `json:"outputs,omitempty"`
	Artifacts []string  `json:"artifacts,omitempty"` // names and globs of the files that are stored as artifacts
	Inputs    []Input   `json:"inputs,omitempty"`    // files that the task gets from other tasks
	Retry     *Retry    `json:"retry,omitempty"`
	Timeout   *Duration `json:"timeout,omitempty"` // the timeout of one attempt; an explicit 0 removes the default
	KillGrace *Duration `json:"kill_grace,omitempty"`
	OnTimeout string    `json:"on_timeout,omitempty"`     // fail | warn; "" is fail
	OnLost    string    `json:"on_lost,omitempty"`        // resubmit | fail | ask; "" is resubmit
	StartBy   *Duration `json:"start_deadline,omitempty"` // the longest time from ready to the assignment; an explicit 0 removes the default
	Priority  string    `json:"priority,omitempty"`
	Group     string    `json:"group,omitempty"`  // the group of the worker
	Labels    []KV      `json:"labels,omitempty"` // the labels that the worker must have
	Node      string    `json:"node,omitempty"`   // the name of the worker
	Queue     string    `json:"queue,omitempty"`  // named queue that limits the number of such attempts
	// Resources are the resources that the task takes of its worker in addition to a slot. nil means the
	// default.
	Resources *dag.Need `json:"resources,omitempty"`
	Access    *Access   `json:"access,omitempty"`
	// ReleaseTimeout is how long a run waits for the release of the work of a task with a kind. If it is nil,
	// the default applies.
	ReleaseTimeout *Duration `json:"release_timeout,omitempty"`
	// Release is the command that ends work outside of its process; nil if there is none.
	Release *Release `json:"release,omitempty"`
}

// Run is the program of a task. Exactly one of Shell, Argv, Code, File and Builtin is set. If no worker runs
// the task, or if it is a request or has a kind, none is set.
type Run struct {
	Shell string   `json:"shell,omitempty"` // text for sh -c
	Argv  []string `json:"argv,omitempty"`  // a program and its arguments, without a shell
	Lang  string   `json:"lang,omitempty"`  // the language of Code: python | node | bash | sh
	Code  string   `json:"code,omitempty"`  // inline source
	File  string   `json:"file,omitempty"`  // a script in the folder of the workflow file
	Args  []string `json:"args,omitempty"`  // arguments of File
	// Builtin is executed by the node itself, without a process. Only the program's own workflows have it; no
	// file can.
	Builtin string `json:"builtin,omitempty"`
}

// KV is one variable of an environment. Value may contain ${{ }}.
type KV struct {
	Name  string `json:"k"`
	Value string `json:"v"`
}

// Type is the type of a parameter or an output.
type Type string

// The types.
const (
	String Type = "string"
	Int    Type = "int"
	Float  Type = "float"
	Bool   Type = "bool"
	JSON   Type = "json"
	Secret Type = "secret" // only for parameters: a text that is sealed when the run starts
)

// Param is one declared parameter.
type Param struct {
	Name        string            `json:"name"`
	Type        Type              `json:"type"`
	Format      string            `json:"format,omitempty"` // the format of a string: date | date-time | duration
	Description string            `json:"description,omitempty"`
	Optional    bool              `json:"optional,omitempty"` // the parameter has no default and may be left out; then it is null
	Default     json.RawMessage   `json:"default,omitempty"`  // the value; expressions in a text are evaluated at the start
	Enum        []json.RawMessage `json:"enum,omitempty"`
}

// Required reports whether every start must give the parameter.
func (p *Param) Required() bool { return !p.Optional && p.Default == nil }

// Output is one declared output of a task.
type Output struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
	Null bool   `json:"null,omitempty"` // the value may be null: an answer that a form does not require
}

// Retry says how failed attempts are repeated.
type Retry struct {
	Max      int32    `json:"max"`
	Delay    Duration `json:"delay,omitempty"`
	Backoff  float64  `json:"backoff,omitempty"`
	MaxDelay Duration `json:"max_delay,omitempty"`
	Jitter   float64  `json:"jitter,omitempty"`
	OnExit   []int32  `json:"on_exit,omitempty"`
}

// KillGraceDefault is the time between TERM and KILL if none is set.
const KillGraceDefault = 10 * time.Second

// Level returns the priority of the workflow's runs.
func (w *Workflow) Level() dag.Priority {
	p, _ := dag.ParsePriority(w.Priority)
	return p
}

// Decode reads the canonical JSON. It relies on the checks of [Parse], and checks only the shape.
func Decode(def []byte) (*Workflow, error) {
	w := &Workflow{exprs: &derived{}}
	if err := json.Unmarshal(def, w); err != nil {
		return nil, fmt.Errorf("decode workflow: %w", err)
	}
	w.unescape()
	return w, nil
}

// Find returns the index of a task by its name.
func (w *Workflow) Find(name string) (int, bool) {
	if w.exprs == nil { // the Workflow was made by a program, not by Parse or Decode
		i := slices.IndexFunc(w.Tasks, func(t Task) bool { return t.Name == name })
		return i, i >= 0
	}
	w.exprs.once.Do(func() {
		w.exprs.index = make(map[string]int, len(w.Tasks))
		for i := range w.Tasks {
			w.exprs.index[w.Tasks[i].Name] = i
		}
	})
	i, ok := w.exprs.index[name]
	return i, ok
}

// Policy returns the policy of task i, with the defaults filled in.
func (w *Workflow) Policy(i int) dag.Policy {
	t, d := &w.Tasks[i], &w.Defaults
	if t.Logical() {
		return t.logicalPolicy()
	}
	p := dag.Policy{KillGrace: KillGraceDefault}
	retry := t.Retry
	if retry == nil {
		retry = d.Retry
	}
	if retry != nil {
		p.Retry = dag.Retry{Max: retry.Max, Delay: time.Duration(retry.Delay), Backoff: retry.Backoff,
			MaxDelay: time.Duration(retry.MaxDelay), Jitter: retry.Jitter, OnExit: retry.OnExit}
	}
	if v := firstDuration(t.Timeout, d.Timeout); v != nil {
		p.Timeout = time.Duration(*v)
	}
	if v := firstDuration(t.KillGrace, d.KillGrace); v != nil {
		p.KillGrace = time.Duration(*v)
	}
	p.WarnOnTimeout = firstText(t.OnTimeout, d.OnTimeout) == "warn"
	if v := firstDuration(t.StartBy, d.StartBy); v != nil {
		p.StartDeadline = time.Duration(*v)
	}
	p.OnLost = onLost[firstText(t.OnLost, d.OnLost)]
	p.Priority, _ = dag.ParsePriority(firstText(t.Priority, d.Priority))
	labels := map[string]string{}
	for _, l := range t.Labels {
		labels[l.Name] = l.Value
	}
	p.Place = dag.NewPlace(t.Node, t.Group, labels).OfKind(t.PlaceKind())
	if need := t.Resources; need != nil {
		p.Place = p.Place.With(*need)
	} else if d.Resources != nil {
		p.Place = p.Place.With(*d.Resources)
	}
	p.Queue = t.Queue
	t.releasePolicy(&p)
	if t.Kind != "" && !t.exits() {
		// a task function ends without an exit code, so this default, which is meant for processes, does not
		// apply
		p.Retry.OnExit = nil
	}
	return p
}

// onLost maps the words of on_lost to policies.
var onLost = map[string]dag.OnLost{"": dag.LostResubmit, "resubmit": dag.LostResubmit, "fail": dag.LostFail, "ask": dag.LostAsk}

func firstDuration(a, b *Duration) *Duration {
	if a != nil {
		return a
	}
	return b
}

func firstText(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// Graph builds the graph of the definition. tasksMax 0 means [dag.TasksMax].
func (w *Workflow) Graph(tasksMax int) (*dag.Graph, error) {
	spec := dag.GraphSpec{
		Tasks:        make([]dag.TaskSpec, len(w.Tasks)),
		EndOnFailure: w.OnFailure == "end",
		Timeout:      time.Duration(w.Timeout),
		TasksMax:     tasksMax,
	}
	var conditions Compiler
	for i := range w.Tasks {
		t := &w.Tasks[i]
		spec.Tasks[i] = dag.TaskSpec{Name: t.Name, Needs: t.Needs, Policy: w.Policy(i)}
		var err error
		if spec.Tasks[i].Logic, err = t.logic(&conditions); err != nil {
			return nil, err
		}
		if t.If == "" {
			continue
		}
		c, err := conditions.Condition(t.If)
		if err != nil {
			return nil, fmt.Errorf("the if of task %q: %w", t.Name, err)
		}
		spec.Tasks[i].If = c
	}
	if read := w.collects(&spec); read != nil {
		for i := range w.Tasks {
			if t := &w.Tasks[i]; len(t.Foreach) > 0 {
				spec.Tasks[i].Logic = t.spread(spec.Tasks[i].Logic, read[t.Name])
			}
		}
	}
	return dag.NewGraph(spec)
}
