package dolphin

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// databases maps the types of data sources to Skein's types of connections.
var databases = map[string]string{"MYSQL": "mysql", "POSTGRESQL": "postgres", "CLICKHOUSE": "clickhouse", "": "TYPE"}

// sqlReference matches a reference in a statement, with the quotes around it. The quotes must go, because the
// database gets the value as a parameter.
var sqlReference = regexp.MustCompile(`'(\$\{[A-Za-z_][A-Za-z0-9_.-]*\}|\$\[[^\]\n]+\])'|(\$\{[A-Za-z_][A-Za-z0-9_.-]*\}|\$\[[^\]\n]+\])|(!\{[^}\n]*\})`)

// sql converts a task that executes statements on a data source.
func (n *node) sql() {
	query := n.own.Take("sql").Str()
	rows := strings.TrimSpace(n.own.Take("sqlType").Str()) == "0" || n.yaml && selects(query)
	var all []string
	for _, part := range [][]string{importer.Texts(n.own.Take("preStatements")), {query}, importer.Texts(n.own.Take("postStatements"))} {
		for _, text := range part {
			if text = strings.TrimRight(strings.TrimSpace(text), "; \n\r\t"); text != "" {
				all = append(all, text)
			}
		}
	}
	if strings.HasPrefix(query, "$FILE{") {
		n.task.Drop("the statements are in another file", "put the file next to the workflow file, name it under files, and write sql: {connection: NAME, file: FILE}")
		return
	}
	if rows && len(all) > 1 {
		n.task.Approximate("the rows of its last query are not kept, because other statements come before or after it")
		rows = false
	}
	n.statements(all, rows)
}

func selects(query string) bool {
	word, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(query)), " ")
	return word == "select" || word == "show" || word == "with"
}

// procedure converts the call of a stored procedure.
func (n *node) procedure() {
	text := strings.TrimSpace(n.own.Take("method").Str())
	if strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}") {
		text = strings.TrimSpace(text[1 : len(text)-1])
	}
	if strings.Contains(text, "?") {
		n.task.Drop("the call has results, or values without names (?)", "write sql: {connection: NAME, query: …} by hand")
		return
	}
	n.statements([]string{text}, false)
}

// statements makes the task execute statements.
func (n *node) statements(all []string, rows bool) {
	t := n.task
	kind, known := databases[strings.ToUpper(n.own.Take("type", "datasource_type").Str())]
	name := n.own.Take("datasource_name").Str()
	id := n.own.Take("datasource").Str()
	switch {
	case len(all) == 0 || all[0] == "":
		t.Drop("the task has no statements", "write them under query")
		return
	case !known:
		t.Drop("Skein has no connection for the type of its data source", "call the client of the database in a task with run")
		return
	case name == "" && id == "":
		t.Drop("the task names no data source", "write sql: {connection: NAME, query: …}")
		return
	case name == "":
		name = strings.ToLower(kind) + "-" + id
	}
	var missed string
	params, used := importer.Map{}, map[string]string{}
	query := sqlReference.ReplaceAllStringFunc(strings.Join(all, ";\n"), func(text string) string {
		ref := strings.Trim(text, "'")
		if strings.HasPrefix(ref, "!") {
			missed = importer.Clip(ref, 60) + " becomes part of the statement, but here only values are passed"
			return text
		}
		value, missing, ok := n.f.reference(n, ref)
		if missing != "" || !ok {
			missed = firstText(missing, importer.Clip(ref, 60)+" is no parameter of the workflow")
			return text
		}
		key := importer.KeyName(strings.Trim(ref, "${}[]"))
		if old, twice := used[key]; !twice {
			used[key] = ref
			params.Add(key, value.Template())
		} else if old != ref {
			key += strconv.Itoa(len(used) + 1)
			used[key] = ref
			params.Add(key, value.Template())
		}
		return ":" + key
	})
	if missed != "" {
		t.Drop(missed, "write the statement with :NAME, and the value under params")
		return
	}
	m := importer.Map{{Key: "connection", Value: connectionName(name)}, {Key: "query", Value: query}}
	if len(params) > 0 {
		m.Add("params", params)
	}
	if rows {
		m.Add("result", "csv")
		t.Approximate("the rows of its last statement become the artifact result.csv; no mail is sent")
	}
	t.Other = &importer.Other{Key: "sql", Value: m, Same: func(is *workflow.Task) bool { return strings.HasSuffix(is.Kind, "sql") }}
	t.Approximate("create its connection with skein connection set NAMESPACE/" + connectionName(name) + " " + kind + " …; all statements are one transaction")
	n.check(params)
}

// check drops the task if Skein would refuse it for any parameter values.
func (n *node) check(params importer.Map) {
	is := *n.task.Other
	m := slices.Clone(is.Value.(importer.Map))
	for i := range m {
		if m[i].Key == "params" {
			plain := slices.Clone(params)
			for k := range plain {
				plain[k].Value = "x"
			}
			m[i].Value = plain
		}
	}
	is.Value = m
	one := *n.task
	one.Other = &is
	if err := importer.CheckTask(&one); err != nil {
		n.task.Drop(err.Error(), "write the task by hand")
	}
}

// connectionName derives a valid name for a connection from a text.
func connectionName(text string) string { return importer.WorkflowName(text) }

// http converts a task that sends a request.
func (n *node) http() {
	t, in := n.task, n.own
	missed := ""
	text := func(s string) importer.Text {
		out, missing := n.f.text(n, s)
		missed = firstText(missed, missing)
		return out
	}
	q := &importer.Request{Method: strings.ToUpper(in.Take("httpMethod").Str())}
	if q.Method == "GET" {
		q.Method = ""
	}
	address, query, body := in.Take("url").Str(), []string{}, in.Take("httpBody").Str()
	var fields []string
	for _, p := range listOf(in.Take("httpParams")) {
		name, value := p.Get("prop").Str(), p.Get("value").Str()
		switch strings.ToUpper(p.Get("httpParametersType").Str()) {
		case "HEADERS", "HEADER":
			q.Headers = append(q.Headers, importer.Var{Name: name, Value: text(value)})
		case "BODY":
			fields = append(fields, strconv.Quote(name)+": "+strconv.Quote(value))
		default:
			if !anyReference.MatchString(value) {
				value = escaped(value)
			}
			query = append(query, escaped(name)+"="+value)
		}
	}
	if len(query) > 0 {
		sep := "?"
		if strings.Contains(address, "?") {
			sep = "&"
		}
		address += sep + strings.Join(query, "&")
		if q.Method != "" {
			t.Approximate("httpParams: the parameters are in the query of the address, even with " + q.Method)
		}
	}
	if body == "" && len(fields) > 0 {
		body = "{" + strings.Join(fields, ", ") + "}"
		q.Headers = append(q.Headers, importer.Var{Name: "Content-Type", Value: importer.Lit("application/json")})
	}
	q.URL = text(address)
	if body != "" {
		q.Body = text(body)
	}
	if ms, ok := importer.Int(in.Take("socketTimeout")); ok && ms > 0 {
		q.Timeout, _ = workflow.ParseDuration(string(importer.Seconds((ms + 999) / 1000)))
	}
	in.Take("connectTimeout")
	t.HTTP = q
	n.expect(q)
	if missed != "" {
		t.Drop(missed, "pass the value in another way")
		return
	}
	if t.Dropped() {
		return
	}
	if err := importer.CheckTask(t); err != nil {
		t.Drop(err.Error(), "write the task by hand")
	}
}

// escaped returns a text escaped for the query of an address.
func escaped(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte("-_.~", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(c)+0x100, 16)[1:]))
		}
	}
	return b.String()
}

// expect converts the condition for the success of a request.
func (n *node) expect(q *importer.Request) {
	check, want := n.own.Take("httpCheckCondition"), n.own.Take("condition").Str()
	switch strings.ToUpper(check.Str()) {
	case "", "STATUS_CODE_DEFAULT":
		q.Status = []int{200}
	case "STATUS_CODE_CUSTOM":
		code, err := strconv.Atoi(strings.TrimSpace(want))
		if err != nil {
			n.task.Drop("condition: "+importer.Clip(want, 30)+" is not a status", "write expect: {status: [200]}")
			return
		}
		q.Status = []int{code}
	case "BODY_CONTAINS":
		q.Contains = want
	default:
		n.task.Drop("Skein has no check like "+importer.Clip(check.Str(), 40), "call curl in a task with run, and check the answer there")
	}
}

// remote converts a script that runs on another machine.
func (n *node) remote() {
	script, id := n.own.Take("rawScript").Str(), n.own.Take("datasource").Str()
	n.own.Take("type")
	if id == "" || strings.TrimSpace(script) == "" {
		n.task.Drop("the task names no machine, or has no script", "write ssh: {connection: NAME, run: …}")
		return
	}
	n.script(script)
	if n.task.Dropped() {
		return
	}
	m := importer.Map{{Key: "connection", Value: "ssh-" + connectionName(id)}, {Key: "run", Value: n.task.Run.Shell}}
	if len(n.task.Env) > 0 {
		m.Add("env", importer.Environment(n.task.Env))
	}
	n.task.Run, n.task.Env = importer.Run{}, nil
	n.task.Other = &importer.Other{Key: "ssh", Value: m, Same: func(is *workflow.Task) bool { return strings.HasSuffix(is.Kind, "ssh") }}
	n.task.Approximate("create its connection with skein connection set NAMESPACE/ssh-" + connectionName(id) + " ssh …")
}

// command makes the task run a program. It leaves out arguments without a value.
func (n *node) command(program string, args ...string) {
	line := program
	for i := 0; i+1 < len(args); i += 2 {
		if args[i+1] != "" {
			line += " " + strings.TrimSpace(args[i]+" "+args[i+1])
		}
	}
	n.task.Approximate("the task runs the program " + program + ", which must be on the worker; write other settings by hand")
	n.script(line)
}

// resource returns the name of a file from a text or from {resourceName: …}.
func resource(v *workflow.Value) string {
	if v != nil && v.Kind == workflow.MapValue {
		return firstText(v.Get("resourceName").Str(), v.Get("res").Str())
	}
	return v.Str()
}

func (n *node) mapReduce() {
	in := n.own
	n.command("hadoop jar", "", quoted(resource(in.Take("mainJar", "main_package"))), "", quoted(in.Take("mainClass").Str()), "", in.Take("others").Str(), "", in.Take("mainArgs").Str())
	in.Take("programType", "appName", "yarnQueue")
}

func (n *node) hive() {
	in := n.own
	script := firstText(in.Take("hiveSqlScript").Str(), in.Take("hiveCliTaskScript").Str())
	if script == "" {
		n.task.Drop("the statements are in another file", "call hive -f FILE in a task with run")
		return
	}
	n.command("hive", "-e", quoted(script), "", in.Take("hiveCliOptions").Str())
	in.Take("hiveCliTaskExecutionType", "type")
}

func (n *node) sqoop() {
	in := n.own
	script := in.Take("customShell").Str()
	if script == "" {
		n.task.Drop("the job is described by fields of DolphinScheduler's page, which the importer does not convert", "call sqoop in a task with run")
		return
	}
	n.task.Approximate("the task runs the program sqoop, which must be on the worker")
	n.script(script)
	in.Rest(nil, func(*workflow.Value, string) {})
}

// quoted quotes a word for sh, unless it is plain or has a reference.
func quoted(word string) string {
	if word == "" || plainWord.MatchString(word) {
		return word
	}
	return importer.QuoteShell(word)
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@,+-]+$`)
