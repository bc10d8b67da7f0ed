// Package sql is the kind of tasks that execute statements in a database over a connection. The database is
// PostgreSQL, MySQL or MariaDB, SQLite, or ClickHouse.
//
// All statements of a task are one transaction. With once, the transaction also writes a row with the key of
// the task into the table skein_done. So the task takes effect only once, however often it is repeated. The
// end of the attempt also ends the statement on the server.
package sql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/sqltext"
	"skein.dev/skein/internal/workflow"
	"skein.dev/skein/sdk/shared/mask"
	"skein.dev/skein/sdk/shared/output"
)

// Name is the name of the kind.
const Name = "sql"

// Kind is the kind sql.
type Kind struct{}

// Settings holds the settings of a machine for the kind.
type Settings struct {
	// Protected lists paths that no connection to SQLite may reach.
	Protected []string `json:"protected"`
}

// Name implements kind.Kind.
func (Kind) Name() string { return Name }

// Connections implements kind.Connector.
func (Kind) Connections() []string { return []string{"postgres", "mysql", "sqlite", "clickhouse"} }

// Values of Result.Use.
const (
	ResultNone  = "none"
	ResultFirst = "first"
	ResultRows  = "rows"
	ResultCSV   = "csv"
	ResultJSONL = "jsonl"
)

// With is the input of a task.
type With struct {
	Connection string `json:"connection"`
	Query      string `json:"query,omitempty"`
	// file with the statements; an alternative to Query.
	File      string                     `json:"file,omitempty"`
	Params    map[string]json.RawMessage `json:"params,omitempty"`
	Result    Result                     `json:"result,omitzero"`
	Expect    string                     `json:"expect,omitempty"`
	Isolation string                     `json:"isolation,omitempty"`
	Once      bool                       `json:"once,omitempty"`
	// Transaction is false if each statement is committed by itself. nil means true.
	Transaction *bool `json:"transaction,omitempty"`
}

// Result says what to do with the rows of the last statement. In JSON it is a word, or {"csv": FILE} or
// {"jsonl": FILE}.
type Result struct{ Use, File string }

// UnmarshalJSON implements json.Unmarshaler.
func (r *Result) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &r.Use) == nil {
		if r.Use == ResultCSV || r.Use == ResultJSONL {
			r.File = "result." + r.Use
		}
		return nil
	}
	var file map[string]string
	if json.Unmarshal(data, &file) != nil || len(file) != 1 {
		return errors.New("the result is neither a word nor a file")
	}
	for r.Use, r.File = range file {
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (r Result) MarshalJSON() ([]byte, error) {
	if r.File != "" {
		return json.Marshal(map[string]string{r.Use: r.File})
	}
	return json.Marshal(r.Use)
}

const (
	outputsMax = 64 << 10  // bytes of all outputs together
	queryMax   = 256 << 10 // bytes of the statements
	triesMax   = 5         // tries of a transaction that conflicts with others
	shownMax   = 2000      // bytes of one message of a server in the log
	noticesMax = 1000      // messages of a server in the log
)

// stopMax bounds the time that a cancelled statement may take to end on the server. Afterwards the session is
// cut.
const stopMax = 2 * time.Second

// idleMax bounds how long a transaction may wait for its client before the server ends it. It is shorter than
// the usual lease of a worker. So a machine that vanished or was frozen leaves no locks and commits nothing
// late.
const idleMax = 10 * time.Second

// failure is an error together with its exit code.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// never returns a failure that a retry cannot repair.
func never(format string, args ...any) error {
	return &failure{kind.Permanent, fmt.Errorf(format, args...)}
}

// errUnknown says that the session broke during the commit.
var errUnknown = errors.New("it is unknown whether the transaction was committed: look at its effect before a retry, or use once: true")

// errKeyGone refuses a commit in which the row of the key would be missing.
var errKeyGone = never("a statement of the task has removed its own row from skein_done, so the task could be done twice: leave out rows of the last days when you delete old ones")

// errEnds refuses a statement such as COMMIT.
var errEnds = never("a statement ends the transaction that the task has begun: remove COMMIT and ROLLBACK, or write transaction: false")

// task is one attempt of a task.
type task struct {
	env      *kind.Env
	with     With
	to       connection.Config
	password string
	hidden   *mask.Set
	egress   egress.Rules
	all      []sqltext.Statement
	params   map[string]param
	expect   *workflow.Expectation
	told     int  // number of server messages in the log so far
	unnamed  bool // the server gives sessions no names, such as a cluster of Galera
}

// Main implements kind.Kind.
func (Kind) Main(ctx context.Context, env *kind.Env) (code int) {
	t := &task{env: env, hidden: mask.NewSet(nil)}
	defer func() {
		if p := recover(); p != nil { // the driver parses messages of a foreign server, and may panic
			t.say("the driver of the database panicked: %v", p)
			code = kind.Failed
		}
	}()
	err := t.read()
	if err == nil {
		err = t.run(ctx)
	}
	switch {
	case err == nil && ctx.Err() != nil:
		return kind.Kept
	case err == nil:
		return kind.Done
	}
	code = kind.Failed
	var f *failure
	if errors.As(err, &f) {
		code = f.code
	}
	if ctx.Err() != nil && !errors.Is(err, errUnknown) {
		code = kind.Failed
		what := "nothing was committed"
		if !t.whole() || t.to.ClickHouse != nil {
			what = "each statement counts by itself"
		}
		err = fmt.Errorf("the attempt was told to end, and %s: %w", what, err)
	}
	t.say("connection %s: %v", t.with.Connection, err)
	return code
}

// say writes a line to the log. It masks secrets before it shortens the text, because a mask cannot find a
// part of a value.
func (t *task) say(format string, args ...any) {
	text := strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(t.hidden.String(fmt.Sprintf(format, args...)), "?"))
	if len(text) > shownMax {
		text = strings.ToValidUTF8(text[:shownMax], "") + "…"
	}
	fmt.Fprintln(t.env.Stderr, text)
}

// notice writes a message of the server to the log.
func (t *task) notice(text string) {
	if t.told++; t.told <= noticesMax {
		t.say("%s", text)
	}
}

// read reads and checks the input.
func (t *task) read() error {
	// The error is dropped, because it could contain a value.
	if json.Unmarshal(t.env.Input.With, &t.with) != nil {
		return never("the input of the task cannot be read")
	}
	if err := t.connection(); err != nil {
		return err
	}
	switch use := &t.with.Result.Use; *use {
	case "":
		*use = ResultNone
	case ResultNone, ResultFirst, ResultRows, ResultCSV, ResultJSONL:
	default:
		return never("result: %.40q is none of none, first, rows, csv, jsonl", *use)
	}
	if err := t.statements(); err != nil {
		return err
	}
	if t.with.Expect != "" {
		var err error
		if t.expect, err = workflow.ParseExpectation(t.with.Expect); err != nil {
			return never("expect: %w", err)
		}
	}
	return t.check()
}

// connection reads the connection and the rules of egress.
func (t *task) connection() (err error) {
	if t.to, err = connection.ParseResolved(t.env.Input.Connection); err != nil {
		return never("%w", err)
	}
	for _, secret := range t.to.Secrets() {
		t.password = secret
	}
	t.hidden = mask.NewSet(slices.Concat(t.to.Secrets(), t.env.Input.Secrets))
	if raw := t.env.Input.Egress; len(raw) > 0 && json.Unmarshal(raw, &t.egress) != nil {
		return never("the rules of egress cannot be read")
	}
	return nil
}

// statements reads the text, and finds the statements and their parameters.
func (t *task) statements() error {
	text := t.with.Query
	if t.with.File != "" {
		if !filepath.IsLocal(t.with.File) {
			return never("file: %.200q is not a path within the folder of the task", t.with.File)
		}
		f, err := os.Open(filepath.Join(t.env.Dir, t.with.File))
		if err != nil {
			return never("file: %w: name it under files of the workflow", err)
		}
		defer f.Close()
		raw, err := io.ReadAll(io.LimitReader(f, queryMax+1))
		switch {
		case err != nil:
			return err
		case len(raw) > queryMax:
			return never("file: %s is larger than %d bytes: put its data into a table first", t.with.File, queryMax)
		}
		text = string(raw)
	}
	var err error
	if t.params, err = paramsOf(t.with.Params); err != nil {
		return never("%w", err)
	}
	t.all = sqltext.Split(text, dialectOf(&t.to), func(name string) bool { _, ok := t.params[name]; return ok })
	if len(t.all) == 0 {
		return never("there is no statement in %s", map[bool]string{true: "query", false: "file " + t.with.File}[t.with.File == ""])
	}
	for i := range t.all {
		for _, name := range t.all[i].Params() {
			if _, ok := t.params[name]; !ok {
				return never("statement %d has the parameter :%s, and params has no %s: add it, or write a space after the colon if it is no parameter", i+1, name, name)
			}
		}
	}
	return nil
}

// check returns an error if the keys of the input contradict each other.
func (t *task) check() error {
	w := &t.with
	file := w.Result.Use == ResultCSV || w.Result.Use == ResultJSONL
	switch {
	case w.Once && !t.whole():
		return never("once works only in a transaction: remove transaction: false")
	case w.Once && file:
		return never("once keeps its result in the database, and a file is not kept there: use result: rows, or another task for the file")
	case w.Once && t.env.Input.Key == "":
		return never("the task has once, and the attempt has no key for it")
	case w.Isolation != "" && !t.whole():
		return never("isolation needs the transaction: remove transaction: false")
	case file && !filepath.IsLocal(w.Result.File):
		return never("result: %.200q is not a path within the folder of the task", w.Result.File)
	case file && t.expect != nil && t.expect.Reads("rows"):
		return never("expect reads rows, and the rows go to a file: read row or rows_affected, or use result: rows")
	}
	return nil
}

// whole reports whether all statements are one transaction.
func (t *task) whole() bool { return t.with.Transaction == nil || *t.with.Transaction }

// attempt returns the number of the attempt that people see.
func (t *task) attempt() int32 { return dag.Token(t.env.Input.Token).Number() }

// give writes the outputs, or returns an error if they cannot be kept. It is called before the commit, so a
// durable effect always has a result.
func (t *task) give(k *kept) error {
	values := map[string]any{"rows_affected": k.Affected}
	switch t.with.Result.Use {
	case ResultFirst:
		values["row"] = k.Rows
	case ResultRows:
		values["rows"] = k.Rows
	}
	raw, err := output.Marshal(values)
	switch {
	case err != nil:
		return never("the result cannot be kept: %w", err)
	case len(raw) > outputsMax:
		return errTooLarge
	case output.HoldsNUL(raw):
		return never("the result holds a NUL, which no output can")
	case t.hidden.HoldsJSON(raw):
		return never("the result holds a secret, so it is not kept: select other columns")
	}
	_, err = t.env.Output.Write(append(raw, '\n'))
	return err
}

var errTooLarge = never("the result is larger than %d bytes: select less, write it into a table, or use result: csv", outputsMax)

// kept is the result of a transaction. With once, the row of the key holds it, too.
type kept struct {
	Affected int64           `json:"affected"`
	Rows     json.RawMessage `json:"rows,omitempty"`
	Attempt  int32           `json:"attempt,omitempty"`
}
