package workflow

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"

	"skein.dev/skein/internal/suggest"
)

// scope is where an expression is. It determines which values the expression may read.
type scope uint8

const (
	inIf        scope = iota // must be pure, because it is evaluated again at every reload
	inTask                   // env and dir of a task, evaluated at dispatch
	inEnv                    // env of the workflow, which cannot read tasks
	inDefault                // default of a parameter: trigger.time only
	inForeach                // like inTask, but in a task with foreach
	inTrigger                // params of a trigger: trigger.time and trigger.event
	inFilter                 // filter of a webhook: event only
	inClaim                  // locks, and per_key of a queue: params and trigger.time
	inWait                   // condition of a wait: as inTask, and now
	inEvent                  // filter of a source of events: event only, of any form
	inWaitEvent              // filter of a wait for an event: as inTask, and event
	inAnswer                 // items of a poll: answer only
	inItem                   // id and newer of a poll: item only
)

// filters reports whether an expression can read an event and nothing else.
func (s scope) filters() bool { return s == inFilter || s == inEvent }

// secretsToo is added to a scope if its expressions may read secrets. These are env, the input of a kind, and
// the headers and the body of a request. The values of such expressions are not stored in rows.
const secretsToo scope = 1 << 7

type refKind uint8

const (
	paramRef        refKind = iota // params.NAME
	paramsRef                      // params
	outputRef                      // tasks.NAME.outputs.KEY
	outputsRef                     // tasks.NAME.outputs
	stateRef                       // tasks.NAME.state
	triggerRef                     // trigger.time
	runRef                         // run.KEY
	successRef                     // success()
	failureRef                     // failure()
	alwaysRef                      // always()
	itemRef                        // item
	triggerEventRef                // trigger.event
	eventRef                       // event.KEY, or event with an empty key
	nowRef                         // now
	secretRef                      // secrets.NAME
	answerRef                      // answer
)

// ref is one value that an expression reads.
type ref struct {
	kind refKind
	task string
	key  string
	has  bool // the reference is inside of has(…), which only tests whether the value exists
}

// id returns the name of the variable for the ref in the compiled program. An author cannot write this name.
func (r ref) id() string {
	return fmt.Sprintf("@%d/%s/%s/%t", r.kind, r.task, r.key, r.has)
}

// String returns the ref as an author writes it.
func (r ref) String() string {
	task := "tasks." + r.task
	if strings.Contains(r.task, "-") {
		task = fmt.Sprintf("tasks[%q]", r.task)
	}
	switch r.kind {
	case paramRef:
		return "params." + r.key
	case paramsRef:
		return "params"
	case outputRef:
		return task + ".outputs." + r.key
	case outputsRef:
		return task + ".outputs"
	case stateRef:
		return task + ".state"
	case triggerRef:
		return "trigger.time"
	case runRef:
		return "run." + r.key
	case successRef:
		return "success()"
	case failureRef:
		return "failure()"
	case itemRef:
		return "item"
	case answerRef:
		return "answer"
	case nowRef:
		return "now"
	case secretRef:
		return "secrets." + r.key
	case triggerEventRef:
		return "trigger.event"
	case eventRef:
		return strings.TrimSuffix("event."+r.key, ".")
	}
	return "always()"
}

// readsTask reports whether the ref reads a task.
func (r ref) readsTask() bool {
	return r.kind == outputRef || r.kind == outputsRef || r.kind == stateRef
}

// handles reports whether a condition with this ref is decided only when all needs of its task have ended.
func (r ref) handles() bool {
	return r.kind == stateRef || r.kind == failureRef || r.kind == alwaysRef
}

// declarations holds the declared names of a workflow, for the type check. If it is nil, every name is valid
// and every type is dynamic.
type declarations struct {
	params  map[string]*Param
	outputs map[string][]Output // outputs of each task; every task has an entry
	foreach map[string]bool     // tasks whose outputs are a list
}

// roots are the variables of expressions.
var roots = []string{"params", "tasks", "trigger", "run", "item", "event", "now", "secrets", "answer"}

// eventKeys are the members of the event of a webhook.
var eventKeys = []string{"body", "headers", "query"}

var runKeys = []string{"id", "workflow", "namespace", "attempt", "version"}

// complaint is a fault at an offset of an expression, in characters.
type complaint struct {
	offset  int
	message string
	hint    string
}

// Error implements error, for callers that have no file.
func (c complaint) Error() string {
	if c.hint == "" {
		return c.message
	}
	return c.message + " (" + c.hint + ")"
}

// refLength returns how many segments of a dotted path form a ref: 2 of params.day, 4 of
// tasks.a.outputs.rows.
func refLength(path []string) int {
	switch {
	case path[0] == "item" || path[0] == "now" || path[0] == "answer" || len(path) == 1 && (path[0] == "params" || path[0] == "event"):
		return 1
	case path[0] != "tasks":
		return 2
	case len(path) > 3 && path[2] != "state":
		return 4 // this includes a misspelt "outputs", so that the hint can give the whole reference
	}
	return 3
}

// resolve returns the ref that a path stands for, and its type. The path must be exactly one ref.
func (d *declarations) resolve(path []string, in scope) (ref, *cel.Type, *complaint) {
	if path[0] == "secrets" {
		return resolveSecret(path, in)
	}
	sealed := in&secretsToo == 0 // a secret parameter cannot be read here
	in &^= secretsToo
	if in == inClaim && path[0] != "params" && path[0] != "trigger" {
		return ref{}, nil, &complaint{message: "locks and keys cannot see " + path[0] + ": they are asked for before the run begins", hint: "they can use params, trigger.time and date()"}
	}
	if in == inAnswer || in == inItem {
		return resolveSource(path, in)
	}
	if path[0] == "answer" {
		return ref{}, nil, &complaint{message: "answer is known only in the items of a poll"}
	}
	if fault := beforeRun(path[0], in); fault != nil {
		return ref{}, nil, fault
	}
	switch path[0] {
	case "params":
		if d != nil && sealed && len(path) > 1 && d.params[path[1]] != nil && d.params[path[1]].Type == Secret {
			return ref{}, nil, &complaint{message: "parameter " + path[1] + " is a secret and cannot be read here: the value would be stored or shown", hint: "use it in env, and in the headers and the body of http"}
		}
		return d.resolveParam(path, in)
	case "tasks":
		return d.resolveTask(path, in)
	case "trigger":
		return resolveTrigger(path, in)
	case "event":
		return resolveEvent(path, in)
	case "run":
		return d.resolveRun(path, in)
	}
	if path[0] == "now" {
		if in != inWait {
			return ref{}, nil, &complaint{message: "now is known only in the condition of a wait", hint: "trigger.time is the instant of the run, the same at every look"}
		}
		return ref{kind: nowRef}, cel.TimestampType, nil
	}
	if in == inForeach {
		return ref{kind: itemRef}, cel.DynType, nil
	}
	return ref{}, nil, &complaint{message: "item is known only in the env, the dir, the request, the input, the parameters of a call and the inner levels of a task with foreach"}
}

// resolveSecret finds secrets.NAME.
func resolveSecret(path []string, in scope) (ref, *cel.Type, *complaint) {
	switch {
	case in&secretsToo == 0:
		return ref{}, nil, &complaint{message: "a secret cannot be read here: the value would be stored or shown", hint: "use secrets in env, in the headers and the body of http, and in the with of a kind"}
	case len(path) != 2 || !secretName.MatchString(path[1]) || path[1] == paramsKey:
		return ref{}, nil, &complaint{message: "that is no secret", hint: "write secrets.NAME, with letters, digits and _"}
	}
	return ref{kind: secretRef, key: path[1]}, cel.StringType, nil
}

// paramsKey is the name of the secret with the key for parameters of type secret.
const paramsKey = "__params"

// secretName matches the names that a secret can have.
var secretName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

// beforeRun reports a value that belongs to a run, in an expression that a trigger evaluates before there is
// a run.
func beforeRun(root string, in scope) *complaint {
	if in != inTrigger && !in.filters() || root == "trigger" || root == "event" {
		return nil
	}
	if in == inEvent {
		return &complaint{message: "a filter cannot see " + root + ": it sees the event only", hint: "write event.KEY"}
	}
	if in == inFilter {
		return &complaint{message: "a filter cannot see " + root + ": it sees the call only", hint: "write event.body, event.headers or event.query"}
	}
	return &complaint{message: "the params of a trigger cannot see " + root, hint: "they can use trigger.time, trigger.event and date()"}
}

func resolveTrigger(path []string, in scope) (ref, *cel.Type, *complaint) {
	r := ref{kind: triggerRef}
	event := len(path) == 2 && path[1] == "event"
	switch {
	case in == inEvent:
		return r, nil, &complaint{message: "a filter cannot see the trigger: it sees the event only", hint: "write event.KEY"}
	case in == inFilter:
		return r, nil, &complaint{message: "a filter cannot see the trigger: it sees the call only", hint: "write event.body, event.headers or event.query"}
	case in == inIf:
		return r, nil, &complaint{message: "an if cannot see the trigger", hint: "give a parameter the default ${{ date(trigger.time) }} and look at that"}
	case event && in == inTrigger:
		return ref{kind: triggerEventRef}, cel.DynType, nil
	case event:
		return r, nil, &complaint{message: "trigger.event is known only in the params of a trigger", hint: "declare a parameter and give it there: params: {id: \"${{ trigger.event.body.id }}\"}"}
	case in == inTrigger && (len(path) != 2 || path[1] != "time"):
		return r, nil, &complaint{message: "a trigger has only a time and an event", hint: "write trigger.time or trigger.event"}
	case len(path) != 2 || path[1] != "time":
		return r, nil, &complaint{message: "a trigger has only a time", hint: "write trigger.time"}
	}
	return r, cel.TimestampType, nil
}

func resolveEvent(path []string, in scope) (ref, *cel.Type, *complaint) {
	r := ref{kind: eventRef}
	switch {
	case in == inTrigger:
		return r, nil, &complaint{message: "event is known only in a filter", hint: "write trigger." + strings.Join(path, ".")}
	case in == inEvent || in == inWaitEvent:
		if len(path) > 1 {
			r.key = path[1]
		}
		return r, cel.DynType, nil
	case in != inFilter:
		return r, nil, &complaint{message: "event is known only in a filter"}
	case len(path) == 1:
		return r, cel.MapType(cel.StringType, cel.DynType), nil
	case !slices.Contains(eventKeys, path[1]):
		hint := "write event.body, for example"
		if near := suggest.Nearest(path[1], slices.Values(eventKeys)); near != "" {
			hint = "did you mean event." + near + "?"
		}
		return r, nil, &complaint{message: "a call has only " + strings.Join(eventKeys, ", ") + ", not " + quoteShort(path[1]), hint: hint}
	}
	r.key = path[1]
	return r, cel.DynType, nil
}

func (d *declarations) resolveParam(path []string, in scope) (ref, *cel.Type, *complaint) {
	if in == inDefault {
		return ref{}, nil, &complaint{message: "the default of a parameter cannot see other parameters", hint: "it can use trigger.time and date()"}
	}
	if len(path) == 1 {
		if name := d.secretParam(); name != "" {
			return ref{}, nil, &complaint{message: "params as a whole cannot be read: parameter " + name + " is a secret", hint: "write params.NAME for each parameter that you need"}
		}
		return ref{kind: paramsRef}, cel.MapType(cel.StringType, cel.DynType), nil
	}
	r := ref{kind: paramRef, key: path[1]}
	if d == nil {
		return r, cel.DynType, nil
	}
	p, ok := d.params[path[1]]
	if !ok {
		hint := "declare it under params"
		if near := suggest.Nearest(path[1], maps.Keys(d.params)); near != "" {
			hint = "did you mean params." + near + "?"
		}
		return r, nil, &complaint{message: "there is no parameter " + quoteShort(path[1]), hint: hint}
	}
	return r, celType(p.Type, p.Optional), nil
}

// secretParam returns the first parameter of type secret, by name, or "" if there is none.
func (d *declarations) secretParam() string {
	if d == nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(d.params)) {
		if d.params[name].Type == Secret {
			return name
		}
	}
	return ""
}

func (d *declarations) resolveRun(path []string, in scope) (ref, *cel.Type, *complaint) {
	if in == inIf || in == inDefault {
		return ref{}, nil, &complaint{message: "run is known only in env and dir", hint: ""}
	}
	if len(path) != 2 || !slices.Contains(runKeys, path[1]) {
		return ref{}, nil, &complaint{message: "a run has only " + strings.Join(runKeys, ", "), hint: "write run.id, for example"}
	}
	r := ref{kind: runRef, key: path[1]}
	if path[1] == "attempt" || path[1] == "version" {
		return r, cel.IntType, nil
	}
	return r, cel.StringType, nil
}

func (d *declarations) resolveTask(path []string, in scope) (ref, *cel.Type, *complaint) {
	switch {
	case in == inEnv:
		return ref{}, nil, &complaint{message: "the env of the workflow cannot see tasks", hint: "put the variable into the env of the task that uses it"}
	case in == inDefault:
		return ref{}, nil, &complaint{message: "the default of a parameter cannot see tasks", hint: "it can use trigger.time and date()"}
	case len(path) < 3:
		return ref{}, nil, &complaint{message: "tasks needs the name of a task, and then outputs or state", hint: `write tasks.NAME.outputs.KEY or tasks.NAME.state; a name with - is tasks["a-b"]`}
	}
	task := path[1]
	var outputs []Output
	if d != nil {
		var ok bool
		if outputs, ok = d.outputs[task]; !ok {
			return ref{}, nil, &complaint{message: "there is no task " + quoteShort(task), hint: d.nearTask(task)}
		}
	}
	switch path[2] {
	case "state":
		return ref{kind: stateRef, task: task}, cel.StringType, nil
	case "outputs":
		if d != nil && d.foreach[task] {
			return foreachOutputs(path, outputs)
		}
		if len(path) == 3 && d == nil { // this is a mapping, or the list of a foreach
			return ref{kind: outputsRef, task: task}, cel.DynType, nil
		}
		if len(path) == 3 {
			return ref{kind: outputsRef, task: task}, cel.MapType(cel.StringType, cel.DynType), nil
		}
		r := ref{kind: outputRef, task: task, key: path[3]}
		if d == nil {
			return r, cel.DynType, nil
		}
		for _, o := range outputs {
			if o.Name == path[3] {
				return r, celType(o.Type, o.Null), nil
			}
		}
		return r, nil, undeclaredOutput(task, path[3], outputs)
	}
	hint := fmt.Sprintf("write tasks.%s.outputs.%s", task, path[2])
	if near := suggest.Nearest(path[2], slices.Values([]string{"outputs", "state"})); near != "" {
		hint = fmt.Sprintf("did you mean %s?", strings.Join(append([]string{"tasks", task, near}, path[3:]...), "."))
	}
	return ref{}, nil, &complaint{message: fmt.Sprintf("a task has outputs and state, not %s", quoteShort(path[2])), hint: hint}
}

// foreachOutputs returns the ref and type of the outputs of a task with foreach, as expressions read them.
func foreachOutputs(path []string, outputs []Output) (ref, *cel.Type, *complaint) {
	r := ref{kind: outputsRef, task: path[1]}
	switch {
	case len(outputs) == 0:
		return r, nil, &complaint{message: fmt.Sprintf("task %s does not declare outputs", quoteShort(path[1])), hint: "declare them there: outputs: {rows: int}"}
	case len(path) > 3:
		return r, nil, &complaint{message: fmt.Sprintf("task %s has foreach: its outputs are a list", quoteShort(path[1])),
			hint: fmt.Sprintf("write %s.map(o, o.%s)", r, path[3])}
	}
	return r, cel.ListType(cel.DynType), nil
}

func (d *declarations) nearTask(task string) string {
	if near := suggest.Nearest(task, maps.Keys(d.outputs)); near != "" {
		return "did you mean " + near + "?"
	}
	return `a name with - is written tasks["a-b"]`
}

func undeclaredOutput(task, key string, outputs []Output) *complaint {
	hint := fmt.Sprintf("declare it there: outputs: {%s: string}", key)
	names := func(yield func(string) bool) {
		for _, o := range outputs {
			if !yield(o.Name) {
				return
			}
		}
	}
	if key == "body" && slices.Contains(outputs, Output{Name: "status", Type: Int}) {
		hint = "http keeps it with answer: text or answer: json"
	} else if near := suggest.Nearest(key, names); near != "" {
		hint = "did you mean " + near + "? Otherwise " + hint
	}
	return &complaint{message: fmt.Sprintf("task %s does not declare an output %s", quoteShort(task), quoteShort(key)), hint: hint}
}

func celType(t Type, optional bool) *cel.Type {
	var c *cel.Type
	switch t {
	case String, Secret, "":
		c = cel.StringType
	case Int:
		c = cel.IntType
	case Float:
		c = cel.DoubleType
	case Bool:
		c = cel.BoolType
	default:
		return cel.DynType
	}
	if optional {
		return cel.NullableType(c)
	}
	return c
}
