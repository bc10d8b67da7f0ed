package workflow

import (
	"encoding/json"
	"regexp"
	"slices"
)

// SQL is a statement that a task executes in a database, over a connection of the namespace. The values of
// Params may hold ${{ }}. They are bound, never put into the text.
type SQL struct {
	Connection string  `json:"connection"`
	Query      string  `json:"query"` // the statement, with @NAME for each parameter
	Params     []Given `json:"params,omitempty"`
	Result     string  `json:"result,omitempty"` // first | rows; "": none
	Isolation  string  `json:"isolation,omitempty"`
	Once       bool    `json:"once,omitempty"`
}

// queryBytesMax bounds the text of a statement.
const queryBytesMax = 256 << 10

// sqlParam matches the names of parameters, as the driver finds them in a statement.
const sqlParam = `^[A-Za-z_][A-Za-z0-9_]{0,62}$`

func sqlShape() *shape {
	return object("a mapping such as {connection: warehouse, query: \"DELETE FROM orders WHERE day = @day\", params: {day: …}}",
		key{name: "connection", must: true, doc: "Name of a connection of the namespace, of the type postgres.",
			shape: pattern("the name of a connection", `^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)},
		key{name: "query", must: true, doc: "One statement, with @NAME for each parameter. It may not hold ${{ }}.", shape: text("a statement of SQL")},
		key{name: "params", doc: "Values of the parameters by name. They are bound, never put into the text. Values may hold ${{ }}.",
			shape: table("a mapping of parameters", pattern("the name of a parameter", sqlParam), &shape{kind: anyShape})},
		key{name: "result", doc: "Which rows become outputs: none (default), first (row) or rows (rows).", shape: oneOf("none", "first", "rows")},
		key{name: "isolation", doc: "Level of the transaction; default: that of the database.", shape: oneOf("read committed", "repeatable read", "serializable")},
		key{name: "once", doc: "Commit once for all attempts, by a row in the table skein_done of the database.", shape: boolean()})
}

// sqlMarks finds the parameters in a statement. It is a hint for people: the driver decides.
var sqlMarks = regexp.MustCompile(`@([A-Za-z_][A-Za-z0-9_]*)`)

// sql reads a task that executes a statement.
func (r *reader) sql(t *Task, n *node, at string) {
	s := n.get("sql")
	if s == nil || s.kind != mapNode {
		return
	}
	here := join(at, "sql")
	q := &SQL{Connection: s.get("connection").str(), Query: s.get("query").str(), Params: given(s.get("params")), Isolation: s.get("isolation").str()}
	if q.Result = s.get("result").str(); q.Result == "none" {
		q.Result = ""
	}
	if once := s.get("once"); once != nil {
		q.Once, _ = once.bool()
	}
	t.SQL = q
	switch {
	case hasTemplate(q.Query):
		r.failNode(s.get("query"), join(here, "query"), "${{ }} in a statement would paste values into it", "write @NAME there, and the value under params")
	case len(q.Query) > queryBytesMax:
		r.failNode(s.get("query"), join(here, "query"), "the statement is larger than "+sizeText(queryBytesMax), "put its data into a table first")
	}
	if ps := s.get("params"); ps != nil && ps.kind == mapNode {
		used := map[string]bool{}
		for _, m := range sqlMarks.FindAllStringSubmatch(q.Query, -1) {
			used[m[1]] = true
		}
		for _, k := range ps.keys {
			if !used[k.text] {
				r.failNode(k, join(join(here, "params"), k.text), "the statement has no parameter @"+k.text, "write @"+k.text+" into the query, or remove the parameter")
			}
		}
	}
	t.Outputs = q.outputs()
	for _, k := range n.keys {
		switch {
		case slices.Contains(notOfKinds, k.text):
			r.failNode(k, join(at, k.text), k.text+" does not belong to sql: a statement has no process", "remove it, or use run")
		case k.text == "outputs":
			r.failNode(k, join(at, k.text), "the outputs of sql are rows_affected, and row or rows", "remove it; result decides the outputs")
		}
	}
	if on := n.get("retry").get("on_exit"); on != nil {
		r.failNode(on, join(join(at, "retry"), "on_exit"), "a statement has no exit code", "remove on_exit; every failure is retried")
	}
}

// outputs returns the outputs that every statement has.
func (q *SQL) outputs() []Output {
	out := []Output{{Name: "rows_affected", Type: Int}}
	switch q.Result {
	case "first":
		out = append(out, Output{Name: "row", Type: JSON})
	case "rows":
		out = append(out, Output{Name: "rows", Type: JSON})
	}
	return out
}

// checkSQL checks the expressions of the parameters of a statement.
func (c *readCheck) checkSQL(n *node, at string, in scope, read func(n *node, at string, refs []ref)) {
	if ps := n.get("sql").get("params"); ps != nil {
		c.checkTexts(ps, join(join(at, "sql"), "params"), in, read)
	}
}

// Statement is a statement with the values of its parameters.
type Statement struct {
	*SQL
	Params json.RawMessage // an object
}

// statement evaluates the parameters of a statement.
func (w *Workflow) statement(t *Task, from *values) (*Statement, error) {
	raw, err := w.object("params", t.SQL.Params, "put large values into a table", t.foreachScope(), from)
	if err != nil {
		return nil, err
	}
	return &Statement{t.SQL, raw}, nil
}
