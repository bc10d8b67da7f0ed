package dolphin

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// node is one task.
type node struct {
	f      *flow
	at     *workflow.Value
	kind   string           // type of the task, in upper case without _
	common *importer.Fields // the fields that tasks of all types have
	own    *importer.Fields // the fields of the task's type; in YAML the same as common
	yaml   bool
	task   *importer.Task
	before []*node
	locals map[string]string // the local parameters that the task reads
	gives  map[string]string // parameter that later tasks can read → the output that holds it
	always bool              // the task also runs if a needed task failed
}

// node begins the conversion of a task.
func (f *flow) node(at *workflow.Value, in *importer.Fields, kind string) *node {
	name := in.Take("name").Str()
	n := &node{f: f, at: at, kind: strings.ToUpper(strings.ReplaceAll(kind, "_", "")), common: in, own: importer.NewFields(nil), locals: map[string]string{}, gives: map[string]string{}}
	n.task = f.Task(at, name)
	if name != "" && n.task.Name != name {
		n.task.Approximate("its name is " + n.task.Name + ", because a name has only letters, digits, _ and - here")
	}
	for _, key := range []string{in.Take("code").Str(), name} {
		if key != "" && f.byKey[key] == nil {
			f.byKey[key] = n
		}
	}
	f.nodes = append(f.nodes, n)
	return n
}

func (n *node) needs(from *node) {
	if from != n && !slices.Contains(n.before, from) {
		n.before = append(n.before, from)
	}
}

// after reports whether the task needs o, directly or through other tasks.
func (n *node) after(o *node) bool {
	return importer.Follows(n, o, func(of *node) []*node { return of.before })
}

// outputs reads the local parameters. The task reads some of them, and passes others to later tasks.
func (n *node) outputs() {
	if list := n.own.Take("localParams"); list != nil {
		for _, p := range list.Vals {
			name := p.Get("prop").Str()
			switch {
			case name == "":
			case strings.EqualFold(p.Get("direct").Str(), "OUT"):
				n.gives[name] = importer.KeyName(name)
			default:
				n.locals[name] = p.Get("value").Str()
			}
		}
	}
	if n.kind == "SHELL" {
		for _, m := range setValue.FindAllStringSubmatch(n.own.Peek("rawScript", "command").Str(), -1) {
			n.gives[m[3]] = importer.KeyName(m[3])
		}
	}
	if !n.yaml {
		return
	}
	if m := n.own.Take("input_params"); m != nil {
		for i, k := range m.Keys {
			n.locals[k.Text] = m.Vals[i].Str()
		}
	}
	if m := n.own.Take("output_params"); m != nil {
		for i, k := range m.Keys {
			if strings.HasPrefix(m.Vals[i].Str(), "FILE(") {
				n.task.Drop("output_params: "+importer.Clip(k.Text, 40)+" is a file", "name it under artifacts, and under inputs of later tasks")
				continue
			}
			n.gives[k.Text] = importer.KeyName(k.Text)
		}
	}
}

// kinds maps the types of tasks to the functions that convert them.
var kinds = map[string]func(*node){
	"SHELL": (*node).shell, "PYTHON": (*node).python, "SQL": (*node).sql, "PROCEDURE": (*node).procedure, "HTTP": (*node).http,
	"SUBPROCESS": (*node).call, "SUBWORKFLOW": (*node).call, "DEPENDENT": (*node).dependent, "CONDITIONS": (*node).conditions, "CONDITION": (*node).conditions,
	"SWITCH": (*node).choose, "REMOTESHELL": (*node).remote, "SPARK": (*node).spark, "MR": (*node).mapReduce, "HIVECLI": (*node).hive,
	"SQOOP": (*node).sqoop,
}

// unmapped maps the types of tasks without a counterpart to the remedy.
var unmapped = map[string]string{
	"DATAX": "call datax.py with the file of the job in a task with run", "CUSTOMDATAX": "call datax.py with the file of the job in a task with run",
	"FLINK": "call flink run in a task with run", "FLINKSTREAM": "a streaming job does not end; start it outside of Skein",
	"K8S": "run the image with container: {image: …}, or call kubectl in a task with run", "JAVA": "call java -jar in a task with run",
	"SEATUNNEL": "call seatunnel.sh in a task with run", "EMR": "call the program aws in a task with run", "DMS": "call the program aws in a task with run",
	"DYNAMIC": "call the workflow with workflow: NAME and foreach", "JUPYTER": "call papermill in a task with run",
	"BLOCKING": "write an approval, or a task with if that fails", "OPENMLDB": "call its client in a task with run", "ZEPPELIN": "call its API with http",
}

// convert converts the work of the task.
func (n *node) convert() {
	for _, o := range n.before {
		n.task.Need(o.task.Name)
	}
	if n.task.Dropped() {
		n.skip()
		return
	}
	n.task.Description = n.common.Take("description").Str()
	make := kinds[n.kind]
	switch off := n.common.Take("flag"); {
	case strings.EqualFold(off.Str(), "NO"):
		n.task.Run = importer.Run{Shell: "true"}
		n.task.Approximate("the task was switched off, so it does nothing, and later tasks run; remove it, or write its command")
		n.skip()
		return
	case make == nil:
		remedy := unmapped[n.kind]
		if remedy == "" {
			remedy = "write a task that does the same"
		}
		n.task.Drop("Skein has no task of the type "+importer.Clip(n.kind, 40), remedy)
		n.skip()
		return
	}
	make(n)
	n.limits()
	n.common.Take("environmentConfig", "resourceList", "resource_list", "dependence", "conditionResult", "switchResult", "waitStartTimeout", "condition_result")
	n.rest()
}

// skip marks the fields of a dropped task as used, because one note about the task is enough.
func (n *node) skip() {
	for _, f := range []*importer.Fields{n.common, n.own} {
		f.Rest(nil, func(*workflow.Value, string) {})
	}
}

// quiet holds the fields that do not affect how a task runs.
var quiet = foldedSet(`id code version projectCode userId createTime updateTime operator operateTime projectName userName modifyBy taskParamList taskParamMap
	resourceIds taskExecuteType taskGroupPriority timeoutNotifyStrategy varPool conditionResult dependence waitStartTimeout resourceList switchResult
	displayRows sendEmail showType connParams title receivers receiversCc groupId type datasource datasource_name datasource_type udfs segmentSeparator sqlType limit isCache environmentCode
	cpuQuota memoryMax timeoutFlag timeout environmentConfig`)

func (n *node) rest() {
	drop := func(key *workflow.Value, why string) {
		if _, silent := quiet[importer.Fold(key.Text)]; !silent {
			n.task.Approximate(why)
		}
	}
	n.common.Rest(quiet, drop)
	if n.own != n.common {
		n.own.Rest(quiet, drop)
	}
}

// limits converts the timeout, retries, priority and placement of a task.
func (n *node) limits() {
	c, t := n.common, n.task
	logical := !t.Dropped() && (t.Call != nil || t.Other != nil && (t.Other.Key == "switch" || t.Other.Key == "dependent") || t.Wait != 0)
	if m, ok := importer.Int(c.Take("timeout")); ok && m > 0 && (n.yaml || strings.EqualFold(c.Peek("timeoutFlag").Str(), "OPEN")) {
		t.Settings.Add("timeout", importer.Seconds(m*60))
		switch how := strings.ToUpper(c.Peek("timeoutNotifyStrategy", "timeout_notify_strategy").Str()); {
		case how != "WARN":
		case logical:
			t.Approximate("timeoutNotifyStrategy WARN: here a task that only waits fails at its timeout")
		default:
			t.Settings.Add("on_timeout", "warn")
		}
	}
	if tries, ok := importer.Int(c.Take("failRetryTimes")); ok && tries > 0 {
		minutes, _ := importer.Int(c.Peek("failRetryInterval"))
		if logical {
			t.Approximate("failRetryTimes: here a task that only waits or decides is not retried")
		} else {
			t.Settings.Add("retry", importer.Map{{Key: "max", Value: rawInt(min(tries, 10_000))}, {Key: "delay", Value: importer.Seconds(min(max(minutes, 0), 1<<20) * 60)}})
		}
	}
	c.Take("failRetryInterval")
	if p := strings.ToLower(c.Take("taskPriority").Str()); slices.Contains([]string{"highest", "high", "low", "lowest"}, p) {
		t.Settings.Add("priority", p)
	}
	n.placement(logical)
	if minutes, ok := importer.Int(c.Take("delayTime")); ok && minutes > 0 {
		n.delay(minutes)
	}
}

var groupName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

func (n *node) placement(logical bool) {
	c, t := n.common, n.task
	if g := c.Take("workerGroup").Str(); g != "" && g != "default" && !logical {
		if groupName.MatchString(g) {
			t.Settings.Add("group", g)
			t.Approximate("workerGroup: start workers with --group " + g + "; the task waits until such a worker is attached")
		} else {
			t.Approximate("workerGroup " + importer.Clip(g, 40) + ": the name of a group has only letters, digits, _ . and -; write group: NAME")
		}
	}
	if id, ok := importer.Int(c.Take("taskGroupId")); ok && id > 0 && !logical {
		queue := "task-group-" + strconv.FormatInt(id, 10)
		t.Settings.Add("queue", queue)
		t.Approximate("taskGroupId: create the queue with skein queue set " + queue + " --limit N")
	}
	if code, ok := importer.Int(c.Take("environmentCode")); ok && code > 0 {
		t.Approximate("environmentCode: the file does not contain the variables of an environment; write them under env, or pass them from the environment of the worker (--pass-env)")
	}
	if files := n.own.Take("resourceList"); files != nil && len(files.Vals) > 0 {
		t.Approximate("resourceList: the file does not contain the files of the resource center; put them next to the workflow file, and name them under files")
	}
	for _, key := range []string{"cpuQuota", "memoryMax"} {
		if v, ok := importer.Int(c.Take(key)); ok && v > 0 {
			t.Approximate(key + ": the importer does not convert this limit; write resources: {cpu: N, memory: SIZE}")
		}
	}
	if v := c.Take("isCache"); strings.EqualFold(v.Str(), "YES") || importer.IsTrue(v) {
		t.Approximate("isCache: results are not reused between runs")
	}
}

// delay adds a task that waits some minutes before this one.
func (n *node) delay(minutes int64) {
	wait := n.f.Task(n.at, n.task.Name+"-delay")
	wait.Need(n.task.Needs...)
	d, err := workflow.ParseDuration(string(importer.Seconds(min(minutes, 1<<20) * 60)))
	if err != nil {
		return
	}
	wait.Wait, wait.If = d, n.task.If
	n.task.Needs, n.task.If = nil, ""
	n.task.Need(wait.Name)
}

// finish completes a task after all tasks have been read.
func (n *node) finish() {
	if n.always && !n.task.Dropped() && n.task.If == "" {
		n.task.If = "always()"
	}
}

// shell converts a shell script.
func (n *node) shell() {
	script := n.own.Take("rawScript", "command").Str()
	if strings.TrimSpace(script) == "" {
		n.task.Drop("the task has no command", "write one")
		return
	}
	n.script(script)
}

// script makes the task run a script with sh.
func (n *node) script(script string) {
	script = n.handed(script)
	missed := ""
	out, err := importer.Shell(script, func(rest string) (string, int, bool) {
		m := reference.FindString(rest)
		if m == "" {
			return "", 0, false
		}
		value, missing, known := n.f.reference(n, m)
		switch {
		case missing != "":
			missed = missing
			return "", 0, false
		case !known: // a variable of the script itself
			return "", 0, false
		}
		name := strings.Trim(m, "${}[]")
		return n.task.Bind(name, value, script), len(m), false
	})
	switch {
	case err != nil:
		n.task.Drop(err.Error(), "")
	case missed != "":
		n.task.Drop(missed, "pass the value in another way")
	default:
		n.task.Run = importer.Run{Shell: strings.TrimSuffix(strings.ReplaceAll(out, "\r\n", "\n"), "\n")}
	}
}

// setValue matches a line of a script that sets a parameter for later tasks.
var setValue = regexp.MustCompile(`(?m)^([ \t]*)echo[ \t]+(['"]?)[$#]\{setValue\(([A-Za-z0-9_]+)=(.*?)\)\}(['"]?)[ \t]*$`)

// handed replaces the lines of a script that set parameters for later tasks with lines that write outputs.
// Such a line may use variables of the script.
func (n *node) handed(script string) string {
	seen := map[string]bool{}
	script = setValue.ReplaceAllStringFunc(script, func(line string) string {
		m := setValue.FindStringSubmatch(line)
		key := importer.KeyName(m[3])
		seen[m[3]] = true
		quote := `"`
		if m[2] == "'" && !strings.Contains(m[4], "$") {
			quote = "'"
		}
		return m[1] + "echo " + quote + key + "=" + m[4] + quote + ` >> "$SKEIN_OUTPUT"`
	})
	for _, name := range sortedKeys(n.gives) {
		if !slices.Contains(n.task.Outputs, n.gives[name]) && seen[name] {
			n.task.Outputs = append(n.task.Outputs, n.gives[name])
		}
		if !seen[name] {
			n.task.Approximate("its parameter " + importer.Clip(name, 40) + " is an output: write " + n.gives[name] + "=VALUE to $SKEIN_OUTPUT in the script")
		}
	}
	return script
}

func sortedKeys(m map[string]string) []string {
	var all []string
	for name := range m {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// wholeLiteral matches a Python string literal that consists of one reference.
var wholeLiteral = regexp.MustCompile(`(['"])(\$\{[A-Za-z_][A-Za-z0-9_.]*\}|\$\[[^\]'"]*\])(['"])`)

// python converts a Python program. A value may replace only a whole literal, so it cannot become code.
func (n *node) python() {
	code := strings.ReplaceAll(n.own.Take("rawScript", "definition").Str(), "\r\n", "\n")
	if strings.TrimSpace(code) == "" {
		n.task.Drop("the task has no program", "write one")
		return
	}
	missed, bound := "", false
	out := wholeLiteral.ReplaceAllStringFunc(code, func(text string) string {
		ref := text[1 : len(text)-1]
		value, missing, known := n.f.reference(n, ref)
		if missing != "" || !known || text[0] != text[len(text)-1] {
			missed = missing
			return text
		}
		bound = true
		return `__import__("os").environ["` + n.task.Bind(strings.Trim(ref, "${}[]"), value, code) + `"]`
	})
	for _, ref := range anyReference.FindAllString(out, -1) {
		if _, missing, known := n.f.reference(n, ref); known || missing != "" {
			missed = fmt.Sprintf("%s is in the program, where a value could become code", importer.Clip(ref, 60))
		}
	}
	if missed != "" {
		n.task.Drop(missed, `set the value under env, and read it with os.environ`)
		return
	}
	if bound {
		n.task.Approximate("the program reads values from the environment, where a number is a text")
	}
	for _, name := range sortedKeys(n.gives) {
		n.task.Approximate("its parameter " + importer.Clip(name, 40) + " is an output: write " + n.gives[name] + "=VALUE to the file $SKEIN_OUTPUT in the program")
	}
	n.task.Run = importer.Run{Lang: "python", Code: strings.TrimRight(out, "\n")}
}
