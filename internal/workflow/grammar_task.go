package workflow

import "slices"

// actions returns the keys for the work of a task. A task has exactly one of them.
func actions() []string {
	all := []string{"run", "switch", "workflow", "tasks", "dependent", "wait", "approval", "notify", "http", "kind"}
	return slices.AppendSeq(all, HouseKinds())
}

func taskShape() *shape {
	needs := forms("a task name or a list of task names", taskName(), list("a list of task names", taskName()))
	sh := object("a mapping such as {run: echo hello}",
		key{name: "description", doc: "What the task does, for people.", shape: textOrNothing("a text")},
		key{name: "needs", doc: "The tasks that must end before this one: a name or a list.", shape: needs},
		key{name: "if", doc: "Whether the task runs once what it needs has ended: success() (default), failure(), always() or any CEL expression.",
			shape: text("an expression such as always() or tasks.check.outputs.rows > 0")},
		key{name: "run", doc: "What is executed: a text for sh -c, a list of program and arguments, {python: CODE}, {node: CODE}, {bash: CODE}, {sh: CODE} or {file: PATH, args: […]}.", shape: run()},
		key{name: "env", doc: "Environment variables of the task. Values may hold ${{ }}.", shape: env()},
		key{name: "outputs", doc: "What the task writes to $SKEIN_OUTPUT, with types: string, int, float, bool or json.", shape: outputs()},
		key{name: "artifacts", doc: "Files of the working folder that are kept after a success: names, or patterns such as out/**.", shape: artifacts()},
		key{name: "inputs", doc: "Files that tasks before this one keep as artifacts, put into the working folder before it starts: TASK/NAME, a list of such, or {NAME HERE: TASK/NAME}; {FOLDER/: TASK/PATTERN} for several.", shape: inputs()},
		key{name: "dir", doc: "Working folder; default: the workflow file's folder where the worker sees it, else a fresh one with files. May hold ${{ }}.",
			shape: text("a folder")},
		key{name: "access", doc: "Files that the task may reach if it is isolated, besides those that every task may.", shape: access()},
		key{name: "timeout", doc: "Execution cap of one attempt; 0 lifts the default's.", shape: duration(true)},
		key{name: "retry", doc: "How failed attempts are tried again.", shape: retry()},
		key{name: "kill_grace", doc: "Time between TERM and KILL; default: 10s.", shape: duration(true)},
		key{name: "on_timeout", doc: "What a timeout does: fail (default) or warn.", shape: oneOf("fail", "warn")},
		key{name: "on_lost", doc: "What happens when the handler of the task is gone: resubmit (default), fail or ask.", shape: oneOf("resubmit", "fail", "ask")},
		key{name: "start_deadline", doc: "Latest start, counted from when the task was ready; on_timeout says what then; 0 lifts the default's.", shape: duration(true)},
		key{name: "priority", doc: "Priority of the task within its run.", shape: priorities()},
	)
	sh.keys = append(sh.keys, placement()...)
	sh.keys = append(sh.keys, taskLater()...)
	sh.keys = append(sh.keys, taskActionsLater()...)
	sh.keys = append(sh.keys, houseKeys()...)
	sh.keys = append(sh.keys, releaseKeys()...)
	one := []any{}
	for _, name := range actions() {
		one = append(one, map[string]any{"required": []string{name}})
	}
	sh.schema = map[string]any{"oneOf": one} // the reader reports this with a better message
	return sh
}

// placement returns the keys that say where a task may run.
func placement() []key {
	return []key{
		{name: "group", doc: "Worker group that runs the task.", shape: pattern("the name of a worker group", `^[^\s]{1,100}$`)},
		{name: "labels", doc: "Labels that the worker must carry.",
			shape: table("a mapping such as {disk: ssd}", pattern("the name of a label", `^[^\s=]{1,100}$`), pattern("the value of a label", `^[^\s]{0,100}$`))},
		{name: "node", doc: "The one node or worker that runs the task. If it is gone, the task fails.",
			shape: pattern("the name of a node or worker", `^[^\s]{1,100}$`)},
	}
}

// taskLater returns the keys of coming features that a task may have next to its action.
func taskLater() []key {
	items := forms("a list, an expression that gives one, a range such as {from: 1, to: 9}, or a mapping of levels", text("an expression that gives a list"),
		list("a list of values", &shape{kind: anyShape}), table("a range, or a mapping of levels", keyName(), &shape{kind: anyShape}))
	return []key{
		{name: "resources", doc: "What the task takes of its worker, beside a slot: basic (0.25 cores, 256Mi), regular (1, 1Gi), premium (2, 4Gi), a class that was made with skein class set, or {cpu: 2, memory: 4Gi}. It starts where so much is left.", shape: resources()},
		{name: "queue", doc: "Named queue that limits how many tasks run at a time that name it, of whatever run; it is made with skein queue set.",
			shape: keyOrDash("the name of a queue")},
		{name: "foreach", doc: "Runs the task once for each item of a list, or of an expression that gives one; env, dir and the parameters of a call see it as item.", shape: items},
		{name: "parallel", doc: "Most instances of foreach at one time; default: all.", shape: integer(1, 100_000)},
		{name: "with", doc: "Parameters of the workflow that is called, or the input of a kind. Texts may hold ${{ }}.",
			shape: table("a mapping of values", text("a name that is not empty"), &shape{kind: anyShape})},
	}
}

// taskActionsLater returns the actions that are not supported yet.
func taskActionsLater() []key {
	branch := object("a mapping such as {if: EXPRESSION, then: TASK} or {else: TASK}",
		key{name: "if", doc: "The condition of this branch.", shape: text("an expression")},
		key{name: "then", doc: "The task that runs if it holds.", shape: taskName()},
		key{name: "else", doc: "The task that runs if no branch holds.", shape: taskName()})
	return []key{
		{name: "switch", doc: "Chooses one of the tasks that need this one: the first whose if holds; the others are skipped.", shape: branches(branch)},
		{name: "workflow", doc: "Starts another workflow and waits for its end, and holds no slot; outputs are those of its last tasks.", shape: workflowRef()},
		{name: "tasks", doc: "Is made of tasks that an expression gives when it runs: a list of tasks with names, or a mapping of tasks by name, in the grammar of this file. They run as a run of their own; it waits for its end, and holds no slot.",
			shape: text("an expression that gives tasks, such as ${{ tasks.plan.outputs.tasks }}")},
		{name: "dependent", doc: "Waits for a run of another workflow, or a task of it, and holds no slot; outputs are run and state.", shape: object("a mapping such as {workflow: NAME, within: day}",
			key{name: "workflow", must: true, doc: "The other workflow.", shape: workflowRef()},
			key{name: "task", doc: "A task of it instead of the whole run.", shape: taskName()},
			key{name: "within", doc: "The span around the instant of this run in which that of the other lies: hour, day (default), week, month, or how far away at most.",
				shape: within()},
			key{name: "timezone", doc: "The time zone of days, weeks and months; default: UTC.", shape: text("the name of a time zone, such as Europe/Berlin")},
			key{name: "require", doc: "succeeded (default) or ended.", shape: oneOf("succeeded", "ended")})},
		{name: "wait", doc: "Waits for a duration, until an instant, until a condition holds, or for an event, and holds no slot.", shape: wait()},
		{name: "approval", doc: "Waits until somebody approves, and holds no slot.", shape: object("a mapping such as {by: [ops], timeout: 4h}",
			key{name: "by", doc: "Who may approve; without it anybody.", shape: approvers()},
			key{name: "four_eyes", doc: "Whether the person who started the run may not decide; default: false.", shape: boolean()},
			key{name: "timeout", doc: "How long to wait; then it fails.", shape: duration(false)},
			key{name: "message", doc: "What is asked.", shape: text("a text")},
			key{name: "form", doc: "Typed fields that a person fills in to approve; each becomes an output of the task.", shape: formShape()})},
		{name: "notify", doc: "Sends a message over channels of the namespace, and waits until they have taken it; holds no slot. Its output incident names the message.", shape: notifyShape()},
		{name: "http", doc: "Sends an HTTP request; outputs are status, body and headers.", shape: http()},
		{name: "kind", doc: "A kind of task that workers register or extensions bring; with is its input.",
			shape: pattern("the name of a kind, such as vm.create: letters, digits, _, . and -; after @ a version, as in slurm@1", `^[A-Za-z0-9_.-]{1,100}(@[0-9][A-Za-z0-9_.-]{0,31})?$`)},
		{name: "patience", doc: "How long a kind that runs as a process is started again while the other side is away; default: 10m.", shape: duration(false)},
	}
}

// approvers refuses an empty list. A reader would understand an empty list as "no user", and treating it as
// "all users" would be unsafe.
func approvers() *shape {
	sh := list("a list of users", keyOrDash("the name of a user"))
	sh.least, sh.empty = 1, "name who may approve, as in by: [ada]; remove by so that every user may"
	return sh
}

func branches(branch *shape) *shape {
	sh := list("a list of branches", branch)
	sh.least = 1
	return sh
}

func wait() *shape {
	return forms("a duration such as 10m, {until: INSTANT}, {condition: EXPRESSION} or {event: TYPE}", duration(false), object("a mapping such as {until: 2027-01-01T06:00:00Z}, {condition: EXPRESSION} or {event: order.created}",
		key{name: "event", doc: "An event that is sent to the namespace; outputs are id, type, source, time and data.", shape: awaitedShape()},
		key{name: "until", doc: "An instant, or an expression that gives one.", shape: text("an instant such as 2027-01-01T06:00:00Z")},
		key{name: "condition", doc: "An expression over now, params, trigger.time and the tasks that it needs; looked at again and again until it holds.", shape: text("an expression such as now > timestamp(params.from)")},
		key{name: "every", doc: "Time between two looks at the condition; default: 10s, at least 1s.", shape: duration(false)}))
}

func within() *shape {
	d := duration(false)
	return scalar("hour, day, week, month or a duration", map[string]any{"type": "string"}, func(n *node) bool {
		switch n.text {
		case "hour", "day", "week", "month":
			return true
		}
		return d.takes(n)
	})
}

// connectionName returns the shape of the name of a connection. Package connection checks the name, too.
func connectionName() *shape {
	return pattern("the name of a connection", `^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)
}

func http() *shape {
	return object(`a mapping such as {url: "http://host/health"}`,
		key{name: "url", must: true, doc: "The address, or with connection a path. May hold ${{ }}, like the headers and the texts of the body.", shape: text("an address")},
		key{name: "connection", doc: "Name of a connection of the namespace, which has the address of the server and its credentials.",
			shape: connectionName()},
		key{name: "method", doc: "GET (default), POST, …", shape: oneOf("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")},
		key{name: "headers", doc: "Headers of the request.", shape: table("a mapping of headers", pattern("the name of a header", `^[A-Za-z0-9-]+$`), textOrNothing("a text"))},
		key{name: "body", doc: "Body of the request: a text, or anything else, which is sent as JSON.", shape: &shape{kind: anyShape}},
		key{name: "timeout", doc: "Longest time for the answer; default: 30s.", shape: duration(false)},
		key{name: "answer", doc: "What the output body is: text or json; default: the body is not kept.", shape: oneOf("text", "json")},
		key{name: "keep", doc: "Headers of the answer that the output headers holds.", shape: list("a list of headers", pattern("the name of a header", `^[A-Za-z0-9-]+$`))},
		key{name: "expect", doc: "What the answer must be.", shape: object("a mapping such as {status: 200}",
			key{name: "status", doc: "Status code, or a list of them.",
				shape: forms("a status code or a list of them", integer(100, 599), list("a list of status codes", integer(100, 599)))},
			key{name: "body", doc: "A text that the body must hold.", shape: text("a text")})})
}

// artifactsMax bounds the names and patterns of one task's artifacts.
const artifactsMax = 100

func artifacts() *shape {
	one := scalar(`a name or pattern such as report.html or "out/**", inside the working folder`, map[string]any{"type": "string"}, filePattern().takes)
	return list("a list of names and patterns", one)
}

func outputs() *shape {
	return forms("a mapping such as {rows: int}, or a list of names", list("a list of names", keyName()),
		table("a mapping such as {rows: int}", keyName(), valueType()))
}

func run() *shape {
	code := text("the source of a program")
	argv := &shape{kind: listShape, is: "a program and its arguments, such as [ls, -l]", item: textOrNothing("a text"), least: 1}
	is := "a command, a list of program and arguments, or one of {python: CODE}, {node: CODE}, {bash: CODE}, {sh: CODE}, {file: PATH}"
	inline := object(is,
		key{name: "python", doc: "Inline source for python3.", shape: code},
		key{name: "node", doc: "Inline source for node.", shape: code},
		key{name: "bash", doc: "Inline source for bash.", shape: code},
		key{name: "sh", doc: "Inline source for sh.", shape: code},
		key{name: "file", doc: "A script beside the workflow file, run by its #! line or extension.",
			shape: insidePath("the path of a script inside the workflow's folder")},
		key{name: "args", doc: "Arguments of the script.", shape: list("a list of arguments", textOrNothing("a text"))})
	inline.choose = []string{"python", "node", "bash", "sh", "file"}
	return forms(is, text("a command"), argv, inline)
}
