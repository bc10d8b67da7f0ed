package workflow

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestStatement: values keep their types on the way to the database, and the text of a statement stays as it is.
func TestStatement(t *testing.T) {
	const file = `name: w
params: {day: string, n: int}
tasks:
  a:
    foreach: [eu, "x'; DROP TABLE t; --"]
    sql:
      connection: warehouse
      query: "SELECT * FROM t WHERE day = :day AND n = :n AND r = :r AND l = @l AND b = :b"
      params: {day: "${{ params.day }}", n: "${{ params.n }}", r: "${{ item }}", l: ["${{ params.n + 1 }}"], b: true}
      result: rows
      once: true
`
	all, errs := Parse([]byte(file), Options{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	is, err := all[0].Resolve(0, Inputs{Params: []byte(`{"day":"2026-11-26","n":9007199254740993}`), Item: []byte(`"x'; DROP TABLE t; --"`)})
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Connection, Query, Result string
		Params                    json.RawMessage
		Once                      bool
	}
	if err := json.Unmarshal(is.Input, &s); err != nil {
		t.Fatal(err)
	}
	if want := `{"b":true,"day":"2026-11-26","l":[9007199254740994],"n":9007199254740993,"r":"x'; DROP TABLE t; --"}`; string(s.Params) != want {
		t.Errorf("%s; want %s", s.Params, want)
	}
	if !strings.Contains(s.Query, "r = :r") || s.Connection != "warehouse" || s.Result != "rows" || !s.Once {
		t.Errorf("%+v", s)
	}
	if types, promised := all[0].Tasks[0].OutputTypes(); types["rows_affected"] != "int" || types["rows"] != "json" || promised {
		t.Errorf("%v, %t", types, promised)
	}
}

func TestRefusedStatements(t *testing.T) {
	for task, says := range map[string]string{
		`{sql: {connection: c, query: "SELECT ${{ run.id }}"}}`:                      "would paste values",
		`{sql: {connection: c, query: "SELECT 1", params: {x: 1}}}`:                  "no parameter :x",
		`{sql: {connection: c, query: "SELECT :x", params: {x: "${{ params.x }}"}}}`: `no parameter "x"`,
		`{sql: {connection: c}}`:                                                                 "no statements",
		`{sql: {connection: c, query: "SELECT 1", file: a.sql}}`:                                 "remove one of them",
		`{sql: {connection: c, file: ../a.sql}}`:                                                 "a file such as load.sql",
		`{sql: {connection: c, query: "SELECT 1", once: true, transaction: false}}`:              "once works only in a transaction",
		`{sql: {connection: c, query: "SELECT 1", once: true, result: csv}}`:                     "a file is not kept",
		`{sql: {connection: c, query: "SELECT 1", result: {csv: a, jsonl: b}}}`:                  "goes to one file",
		`{sql: {connection: c, query: "SELECT 1", result: {csv: ../a}}}`:                         "a file of the working folder",
		`{sql: {connection: c, query: "SELECT 1", expect: "rows > "}}`:                           "the names are columns",
		`{sql: {connection: c, query: "SELECT 1", expect: "tasks.a.state == 'x'"}}`:              "the names are columns",
		`{sql: {connection: c, query: "SELECT 1", expect: "rows.size() > 0", result: csv}}`:      "the rows go to a file",
		`{sql: {connection: c, query: "SELECT 1", isolation: none}}`:                             "one of read uncommitted",
		`{sql: {connection: c, query: "SELECT 1", isolation: serializable, transaction: false}}`: "isolation needs",
		`{sql: {connection: c, query: "SELECT 1"}, env: {A: b}}`:                                 "env does not belong to sql",
		`{sql: {connection: c, query: "SELECT 1"}, outputs: {a: int}}`:                           "the outputs of sql are not declared",
		`{sql: {connection: c, query: "SELECT 1"}, retry: {max: 1, on_exit: [1]}}`:               "no exit codes",
		`{sql: {connection: c, query: "SELECT 1", result: all}}`:                                 "none, first, rows, csv, jsonl",
		`{sql: {connection: c, query: "SELECT 1"}, run: "true"}`:                                 "several actions",
		`{sql: {connection: c, query: "` + strings.Repeat("x", queryBytesMax+1) + `"}}`:          "are larger than",
		`{http: {connection: c, url: "https://example.org/"}}`:                                   "a path that begins with /",
		`{http: {connection: c, url: "/a#b"}}`:                                                   "a path that begins with /",
		`{http: {connection: ../c, url: "/"}}`:                                                   "the name of a connection",
	} {
		_, errs := Parse([]byte("name: w\ntasks: {a: "+task+"}\n"), Options{})
		found := ""
		for _, err := range errs {
			found += err.Error() + " " + err.Hint + "\n"
		}
		if !strings.Contains(found, says) {
			t.Errorf("%.100s: %q; want %q", task, found, says)
		}
	}
}

// TestResultFiles: a file of rows is an artifact that other tasks can use as an input.
func TestResultFiles(t *testing.T) {
	for result, want := range map[string]string{"csv": "result.csv", "{jsonl: out/a.jsonl}": "out/a.jsonl", "none": "", "rows": ""} {
		all, errs := Parse([]byte("name: w\ntasks:\n  a: {sql: {connection: c, file: a.sql, result: "+result+", expect: rows_affected > 0}}\n"), Options{})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if is := strings.Join(all[0].Tasks[0].Artifacts, " "); is != want {
			t.Errorf("%s: %q", result, is)
		}
	}
}
