package workflow

import (
	"path"
	"regexp"
	"strings"
	"sync"
)

// The patterns of names.
const (
	workflowNamePattern = `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`
	taskNamePattern     = `^[A-Za-z0-9_-]{1,100}$`
	keyNamePattern      = `^[A-Za-z_][A-Za-z0-9_]{0,99}$`
)

// grammar is the whole file. It is built once and never changed.
var grammar = sync.OnceValue(workflowShape)

func workflowName() *shape {
	return pattern("a name of a-z, 0-9 and -, at most 63 characters, that begins and ends with a letter or digit", workflowNamePattern)
}

// workflowRef returns the shape of the name of a workflow, in this or another namespace.
func workflowRef() *shape {
	return pattern("the name of a workflow, or namespace/name", `^([a-z0-9][a-z0-9-]{0,62}/)?[a-z0-9][a-z0-9-]{0,62}$`)
}

func taskName() *shape {
	return pattern("a task name of letters, digits, _ and -, at most 100 characters", taskNamePattern)
}

func keyName() *shape {
	return pattern("a name of letters, digits and _ that does not begin with a digit, at most 100 characters", keyNamePattern)
}

func priorities() *shape { return oneOf("highest", "high", "medium", "low", "lowest") }

func valueType() *shape {
	sh := oneOf("string", "int", "float", "bool", "json")
	sh.means = map[string]string{"str": "string", "text": "string", "integer": "int", "number": "float", "double": "float", "boolean": "bool",
		"list": "json", "array": "json", "map": "json", "object": "json"}
	return sh
}

// paramType is valueType for a parameter, with formats for texts.
func paramType() *shape {
	means := valueType().means
	sh := oneOf("string", "int", "float", "bool", "json", "secret")
	sh.means = means
	for _, format := range paramFormats {
		sh.means[format] = "string, with format: " + format
	}
	return sh
}

var paramFormats = []string{"date", "date-time", "duration"}

// env returns the shape of a table of variables. Values are used exactly as they are written.
func env() *shape {
	name := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	variable := scalar("a name of letters, digits and _ that does not begin with a digit or with SKEIN_",
		map[string]any{"type": "string", "pattern": name.String()},
		func(n *node) bool {
			return n.kind == scalarNode && name.MatchString(n.text) && !strings.HasPrefix(n.text, "SKEIN_")
		})
	return table("a mapping of variables, such as {DAY: monday}", variable,
		textOrNothing(`a text (an empty one is "")`))
}

// insidePath accepts a path with slashes that does not leave the workflow's folder.
func insidePath(is string) *shape {
	return scalar(is, map[string]any{"type": "string"}, func(n *node) bool {
		return n.isText() && isInside(n.text)
	})
}

func isInside(name string) bool {
	clean := path.Clean(name)
	return name != "" && !strings.ContainsAny(name, "\x00\\") && !path.IsAbs(name) && clean != ".." && !strings.HasPrefix(clean, "../")
}

func filePattern() *shape {
	return scalar(`a pattern such as "*.sh" or "lib/**", inside the workflow's folder`, map[string]any{"type": "string"},
		func(n *node) bool {
			return n.isText() && isInside(n.text) && validGlob(n.text)
		})
}

func validGlob(text string) bool {
	for _, part := range strings.Split(text, "/") {
		if _, err := path.Match(part, ""); err != nil {
			return false
		}
	}
	return true
}

func retry() *shape {
	return object("a mapping such as {max: 3, delay: 10s}",
		key{name: "max", must: true, doc: "Retries after the first attempt.", shape: integer(0, 10_000)},
		key{name: "delay", doc: "Time before the first retry.", shape: duration(true)},
		key{name: "backoff", doc: "Factor from one delay to the next; 1 keeps it the same.", shape: number(1, 100)},
		key{name: "max_delay", doc: "The longest delay that backoff leads to.", shape: duration(false)},
		key{name: "jitter", doc: "Share of the delay, 0 to 1, that is added or taken at random.", shape: number(0, 1)},
		key{name: "on_exit", doc: "Retry only these exit codes; without it, any failure.",
			shape: &shape{kind: listShape, is: "a list of exit codes such as [75]", item: integer(0, 255), least: 1}},
	)
}

func param() *shape {
	literal := &shape{kind: anyShape}
	return forms("a type such as string, or a mapping such as {type: string, default: a}", paramType(), object("",
		key{name: "type", doc: "string (default), int, float, bool, json or secret: a text that is sealed at the start and never shown.", shape: paramType()},
		key{name: "format", doc: "What a string must look like.", shape: oneOf(paramFormats...)},
		key{name: "default", doc: "The value when a start gives none. A text may hold ${{ }} over trigger.time and date().", shape: literal},
		key{name: "enum", doc: "The values that are allowed.",
			shape: &shape{kind: listShape, is: "a list of values", item: literal, least: 1}},
		key{name: "required", doc: "Whether a start must give it. Without a default the answer is true.", shape: boolean()},
		key{name: "description", doc: "What it is for.", shape: textOrNothing("a text")},
	))
}

func workflowShape() *shape {
	params := table("a mapping of parameters, such as {day: {type: string}}", keyName(), param())
	tasks := table("a mapping of tasks, such as {hello: {run: echo hello}}", taskName(), taskShape())
	sh := object("a mapping with name and tasks",
		key{name: "name", must: true, doc: "Name of the workflow, unique in its namespace.", shape: workflowName()},
		key{name: "namespace", doc: "Namespace of the workflow; default: default.", shape: workflowName()},
		key{name: "description", doc: "What the workflow does, for people.", shape: textOrNothing("a text")},
		key{name: "tags", doc: "Words by which lists and alerts find the workflow and its runs, such as {team: data}.", shape: tagsShape()},
		key{name: "params", doc: "Parameters that a start gives.", shape: params},
		key{name: "triggers", doc: "What starts the workflow: schedules and sensors.",
			shape: list("a list of triggers", triggerShape())},
		key{name: "offers", doc: "Other namespaces whose workflows may call this one, wait for its runs, or start when they end: a list of names, or [\"*\"] for all. Without this key, the author of the other workflow needs the right here.",
			shape: list("a list of namespaces", pattern("the name of a namespace, or *", `^(\*|`+strings.Trim(workflowNamePattern, "^$")+`)$`))},
		key{name: "priority", doc: "Priority of the runs; default: medium.", shape: priorities()},
		key{name: "queue", doc: "Named queue that the runs pass; its limits are set on the queue (skein queue set).", shape: keyOrDash("the name of a queue")},
		key{name: "max_concurrent_runs", doc: "Most runs of this workflow at one time, whatever started them; default: any number. Further ones wait.", shape: integer(1, 1_000_000)},
		key{name: "locks", doc: "Named resources that a run holds from its split to its end. May hold ${{ }} over params and trigger.time.",
			shape: list("a list of lock names", text("the name of a lock"))},
		key{name: "lock_policy", doc: "What a run does while a lock is held by another: wait (default) or fail.", shape: oneOf("wait", "fail")},
		key{name: "timeout", doc: "Execution cap of the run.", shape: duration(false)},
		key{name: "on_failure", doc: "continue (default): branches that do not need the failed task go on. end: the run stops and fails.", shape: oneOf("continue", "end")},
		key{name: "defaults", doc: "What tasks use when they do not say otherwise.", shape: defaults()},
		key{name: "env", doc: "Environment variables of every task. Values may hold ${{ }}.", shape: env()},
		key{name: "splitter", doc: "What makes the tasks of a run: default, which takes those of the file, or instead of tasks a kind that workers register.", shape: splitter()},
		key{name: "files", doc: "Globs of files beside the workflow file that travel with the version: 1 MiB each, 16 MiB in all.",
			shape: forms("a glob or a list of globs", filePattern(), list("a list of globs", filePattern()))},
		key{name: "retention", doc: "How long, and how many, finished runs are kept; what is left out is the cluster's default.",
			shape: object("a mapping such as {age: 90d, runs: 1000}",
				key{name: "age", doc: "Runs that finished longer ago go.", shape: duration(false)},
				key{name: "runs", doc: "Only so many of the finished runs are kept, the newest.", shape: integer(1, 1_000_000_000)})},
		key{name: "alerts", doc: "Who is notified of what.", shape: list("a list of alerts", alertShape())},
		key{name: "tasks", must: true, unless: splits, doc: "The tasks, by name.", shape: tasks},
	)
	sh.schema = map[string]any{"anyOf": []any{map[string]any{"required": []string{"tasks"}}, map[string]any{"required": []string{"splitter"}}}}
	return sh
}

// keyOrDash returns the shape of the names of queues, groups and plug-ins.
func keyOrDash(is string) *shape { return pattern(is, `^[A-Za-z0-9_.-]{1,100}$`) }

func defaults() *shape {
	return object("a mapping such as {timeout: 30m, retry: {max: 2, delay: 10s}}",
		key{name: "timeout", doc: "Execution cap of one attempt.", shape: duration(false)},
		key{name: "retry", doc: "How failed attempts are tried again.", shape: retry()},
		key{name: "kill_grace", doc: "Time between TERM and KILL; default: 10s.", shape: duration(true)},
		key{name: "on_timeout", doc: "What a timeout does: fail (default) or warn.", shape: oneOf("fail", "warn")},
		key{name: "on_lost", doc: "What happens when the handler of a task is gone: resubmit (default), fail or ask.", shape: oneOf("resubmit", "fail", "ask")},
		key{name: "start_deadline", doc: "Latest start of a task, counted from when it was ready.", shape: duration(false)},
		key{name: "resources", doc: "What the tasks take of their worker: basic, regular, premium, a class of one's own, or {cpu: 2, memory: 4Gi}.", shape: resources()},
		key{name: "priority", doc: "Priority of the tasks within their run.", shape: priorities()},
		key{name: "access", doc: "Files that isolated tasks may reach, besides those that every task may.", shape: access()},
	)
}

func resources() *shape {
	return forms("basic, regular, premium, the name of a resource class, or a mapping such as {cpu: 2, memory: 4Gi}",
		pattern("the name of a resource class: basic, regular, premium, or one that was made with skein class set", className),
		object("",
			key{name: "cpu", doc: "Processor cores.", shape: number(0.001, 10_000)},
			key{name: "memory", doc: "Memory.", shape: size()}))
}
