package workflow

import (
	"slices"

	"skein.dev/skein/internal/sqltext"
)

// queryBytesMax bounds the text of statements.
const queryBytesMax = 256 << 10

// sqlParam matches the names of parameters.
const sqlParam = `^[A-Za-z_][A-Za-z0-9_]{0,62}$`

// sqlHouse returns the kind of tasks that execute statements in a database, over a connection of the
// namespace.
func sqlHouse() house {
	return house{name: "sql", doc: "Executes statements in a database; outputs are rows_affected, and row or rows.", shape: sqlShape,
		keys: []string{"access", "inputs"}, outputs: sqlOutputs, artifacts: sqlArtifacts, check: checkSQL}
}

func sqlShape() *shape {
	file := insidePath("a file of the working folder, such as out.csv")
	return object("a mapping such as {connection: warehouse, query: \"DELETE FROM orders WHERE day = :day\", params: {day: …}}",
		key{name: "connection", must: true, doc: "Name of a connection of the namespace: postgres, mysql, sqlite or clickhouse.",
			shape: connectionName()},
		key{name: "query", doc: "Statements with :NAME for each parameter, and a semicolon after each. It may not hold ${{ }}.", shape: text("statements of SQL")},
		key{name: "file", doc: "A file of the working folder with the statements, in place of query.", shape: insidePath("a file such as load.sql")},
		key{name: "params", doc: "Values of the parameters by name. They are bound, never put into the text. Values may hold ${{ }}.",
			shape: table("a mapping of parameters", pattern("the name of a parameter", sqlParam), &shape{kind: anyShape})},
		key{name: "result", doc: "Use of the rows of the last statement: none (default), first (output row), rows (output rows), csv or jsonl (an artifact).",
			shape: forms("none, first, rows, csv, jsonl, or {csv: FILE} or {jsonl: FILE}", oneOf("none", "first", "rows", "csv", "jsonl"),
				object("a mapping such as {csv: out.csv}", key{name: "csv", doc: "The file.", shape: file}, key{name: "jsonl", doc: "The file.", shape: file}))},
		key{name: "expect", doc: "Condition on columns, row, rows and rows_affected, checked before the commit.", shape: text("an expression such as rows_affected > 0")},
		key{name: "isolation", doc: "Level of the transaction; default: that of the database.",
			shape: oneOf("read uncommitted", "read committed", "repeatable read", "serializable")},
		key{name: "once", doc: "Commit once for all attempts, by a row in the table skein_done of the database.", shape: boolean()},
		key{name: "transaction", doc: "false: each statement is committed by itself; default: true.", shape: boolean()})
}

// sqlFile returns how the rows are used, and the file for them, or "" if there is none.
func sqlFile(n *node) (use, file string) {
	is := n.get("result")
	if is == nil || is.kind != mapNode {
		use = is.str()
	} else {
		for i, k := range is.keys {
			return k.text, is.vals[i].text
		}
	}
	if use == "csv" || use == "jsonl" {
		file = "result." + use
	}
	return use, file
}

func sqlOutputs(n *node) []Output {
	out := []Output{{Name: "rows_affected", Type: Int}}
	switch use, _ := sqlFile(n); use {
	case "first":
		out = append(out, Output{Name: "row", Type: JSON})
	case "rows":
		out = append(out, Output{Name: "rows", Type: JSON})
	}
	return out
}

func sqlArtifacts(n *node) []string {
	if _, file := sqlFile(n); file != "" {
		return []string{file}
	}
	return nil
}

// checkSQL finds those faults of a task with sql that do not depend on its database.
func checkSQL(r *reader, n *node, at string) {
	query, file, use := n.get("query"), n.get("file"), n.get("result")
	switch {
	case query == nil && file == nil:
		r.failNode(n, at, "there are no statements", "write them under query, or their file under file")
	case query != nil && file != nil:
		r.failNode(file, join(at, "file"), "there are query and file", "remove one of them")
	case query != nil && hasTemplate(query.text):
		r.failNode(query, join(at, "query"), "${{ }} in a statement would paste values into it", "write :NAME there, and the value under params")
	case query != nil && len(query.text) > queryBytesMax:
		r.failNode(query, join(at, "query"), "the statements are larger than "+sizeText(queryBytesMax), "put their data into a table first")
	case query != nil:
		r.sqlParams(n, query.text, at)
	}
	if use != nil && use.kind == mapNode && len(use.keys) != 1 {
		r.failNode(use, join(at, "result"), "the result goes to one file", "write {csv: FILE} or {jsonl: FILE}")
	}
	r.sqlOnce(n, at)
	if x := n.get("expect"); x != nil && x.isText() {
		is, err := ParseExpectation(x.text)
		_, to := sqlFile(n)
		switch {
		case hasTemplate(x.text):
			r.failNode(x, join(at, "expect"), "${{ }} in a condition would paste values into it", "write the condition alone, such as rows_affected > 0")
		case err != nil:
			r.failNode(x, join(at, "expect"), err.Error(), "the names are columns, row, rows and rows_affected")
		case to != "" && is.Reads("rows"):
			r.failNode(x, join(at, "expect"), "the rows go to a file, so expect cannot read them", "read row or rows_affected")
		}
	}
}

// sqlOnce finds keys that cannot be used together.
func (r *reader) sqlOnce(n *node, at string) {
	isTrue := func(name string) bool {
		v := n.get(name)
		if v == nil {
			return name == "transaction"
		}
		is, _ := v.bool()
		return is
	}
	_, file := sqlFile(n)
	switch {
	case isTrue("once") && !isTrue("transaction"):
		r.failNode(n.get("once"), join(at, "once"), "once works only in a transaction", "remove transaction: false")
	case isTrue("once") && file != "":
		r.failNode(n.get("once"), join(at, "once"), "once keeps its result in the database, and a file is not kept there", "use result: rows, or another task for the file")
	case n.get("isolation") != nil && !isTrue("transaction"):
		r.failNode(n.get("isolation"), join(at, "isolation"), "isolation needs the transaction", "remove transaction: false")
	}
}

// sqlParams compares the parameters with those in the text. The type of the connection is not known here. So
// a parameter is accepted if one of the databases would find it in the text.
func (r *reader) sqlParams(n *node, query, at string) {
	given := n.get("params")
	if given == nil || given.kind != mapNode {
		return
	}
	known := func(name string) bool { return given.get(name) != nil }
	var used []string
	for _, d := range sqltext.Dialects {
		for _, s := range sqltext.Split(query, d, known) {
			used = append(used, s.Params()...)
		}
	}
	for _, k := range given.keys {
		if !slices.Contains(used, k.text) {
			r.failNode(k, join(join(at, "params"), k.text), "the statements have no parameter :"+k.text,
				"write :"+k.text+" into the query, or remove the parameter")
		}
	}
}
