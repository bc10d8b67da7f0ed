package sql

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"skein.dev/skein/internal/connection"
)

// fileMax bounds the bytes of a result file, so that a server that sends rows without end cannot fill the
// disk.
const fileMax = 64 << 30

// cellKind says how to write a value in JSON.
type cellKind = connection.Form

const (
	null     = connection.FormNull
	boolean  = connection.FormBoolean
	number   = connection.FormNumber
	text     = connection.FormText
	document = connection.FormDocument
	bytesOf  = connection.FormBytes
)

// cell is one value of a row. Its text is valid until the next row is read.
type cell struct {
	kind cellKind
	text []byte
}

// json appends the value as JSON.
func (c *cell) json(to []byte) ([]byte, error) { return c.kind.AppendJSON(to, c.text) }

// plain returns the value for CSV. NULL becomes the empty text.
func (c *cell) plain() string {
	if c.kind == bytesOf {
		return `\x` + hex.EncodeToString(c.text)
	}
	return string(c.text)
}

// sink collects the rows of a statement.
type sink struct {
	result string
	keep   int // number of rows to keep as JSON: 0, 1 or -1 for all

	names [][]byte // names of the columns in JSON, each with a colon
	plain []string
	n     int64
	list  []byte // kept rows, with commas between them
	line  []byte
	path  string
	file  *os.File
	out   *bufio.Writer
	csv   *csv.Writer
	size  int64
}

// sink returns a sink for the last statement.
func (t *task) sink() *sink {
	s := &sink{result: t.with.Result.Use}
	switch {
	case s.result == ResultRows || t.expect != nil && t.expect.Reads("rows"):
		s.keep = -1
	case s.result == ResultFirst || t.expect != nil && t.expect.Reads("row"):
		s.keep = 1
	}
	if s.result == ResultCSV || s.result == ResultJSONL {
		s.path = filepath.Join(t.env.Dir, t.with.Result.File)
	}
	return s
}

// open begins a new result, and deletes the result of an earlier try.
func (s *sink) open() error {
	s.discard()
	s.names, s.plain, s.n, s.list, s.size = nil, nil, 0, nil, 0
	if s.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
		return err
	}
	var err error
	if s.file, err = os.CreateTemp(filepath.Dir(s.path), ".skein-*"); err != nil {
		return err
	}
	s.out = bufio.NewWriterSize(s, 64<<10)
	if s.result == ResultCSV {
		s.csv = csv.NewWriter(s.out)
	}
	return nil
}

// Write writes to the file. It returns an error beyond fileMax.
func (s *sink) Write(p []byte) (int, error) {
	if s.size += int64(len(p)); s.size > fileMax {
		return 0, never("the result is larger than %d bytes: select less", int64(fileMax))
	}
	return s.file.Write(p)
}

// discard removes the file if close has not been called.
func (s *sink) discard() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name())
		s.file = nil
	}
}

// close completes the file and gives it its final name.
func (s *sink) close() error {
	if s.file == nil {
		return nil
	}
	if s.csv != nil {
		s.csv.Flush()
		if err := s.csv.Error(); err != nil {
			return err
		}
	}
	err := errors.Join(s.out.Flush(), s.file.Chmod(0o644), s.file.Close(), os.Rename(s.file.Name(), s.path))
	s.file = nil
	return err
}

// columns sets the names of the columns. Call it before row.
func (s *sink) columns(names []string) error {
	seen := map[string]bool{}
	s.names, s.plain = nil, names
	for _, name := range names {
		if seen[name] && (s.keep != 0 || s.result == ResultJSONL) {
			return never("two columns of the result have the name %.100q: rename one with AS", name)
		}
		seen[name] = true
		key, err := json.Marshal(name)
		if err != nil {
			return err
		}
		s.names = append(s.names, append(key, ':'))
	}
	if s.csv != nil {
		return s.csv.Write(names)
	}
	return nil
}

// row adds a row.
func (s *sink) row(cells []cell) error {
	if s.n++; s.csv != nil {
		record := make([]string, len(cells))
		for i := range cells {
			record[i] = cells[i].plain()
		}
		if err := s.csv.Write(record); err != nil {
			return err
		}
	}
	lines := s.result == ResultJSONL
	if keep := s.keep < 0 || s.keep == 1 && s.n == 1; !keep && !lines {
		return nil
	}
	line := append(s.line[:0], '{')
	for i := range cells {
		if i > 0 {
			line = append(line, ',')
		}
		var err error
		if line, err = cells[i].json(append(line, s.names[i]...)); err != nil {
			return never("column %.100q: %w", s.plain[i], err)
		}
	}
	s.line = append(line, '}')
	if lines {
		if _, err := s.out.Write(append(s.line, '\n')); err != nil {
			return err
		}
	}
	if s.keep < 0 || s.keep == 1 && s.n == 1 {
		if len(s.list) > 0 {
			s.list = append(s.list, ',')
		}
		if s.list = append(s.list, s.line...); len(s.list) > outputsMax {
			return errTooLarge
		}
	}
	return nil
}

// rows returns the kept rows in the form for the outputs.
func (s *sink) rows() json.RawMessage {
	switch {
	case s.result == ResultRows:
		return append(append([]byte{'['}, s.list...), ']')
	case s.result == ResultFirst && s.n == 0:
		return json.RawMessage("null")
	case s.result == ResultFirst:
		return s.first()
	}
	return nil
}

// first returns the first kept row.
func (s *sink) first() json.RawMessage {
	var one json.RawMessage
	d := json.NewDecoder(bytes.NewReader(s.list))
	if d.Decode(&one) != nil {
		return json.RawMessage("null")
	}
	return one
}

// checks evaluates the task's expect with the result. It returns an error if expect is false.
func (t *task) checks(s *sink, affected int64) error {
	if t.expect == nil {
		return nil
	}
	row, rows := map[string]any{}, []any{}
	d := json.NewDecoder(bytes.NewReader(slices.Concat([]byte{'['}, s.list, []byte{']'})))
	d.UseNumber() // keeps integers exact
	if err := d.Decode(&rows); err != nil {
		return err
	}
	if len(rows) > 0 {
		row, _ = rows[0].(map[string]any)
	}
	columns := s.plain
	if columns == nil {
		columns = []string{}
	}
	is, err := t.expect.Holds(map[string]any{"columns": columns, "row": row, "rows": rows, "rows_affected": affected})
	switch {
	case err != nil:
		return fmt.Errorf("expect cannot be evaluated for %d rows: %w", affected, err)
	case !is:
		return fmt.Errorf("the result is not the expected one: %s is false, rows_affected is %d", t.with.Expect, affected)
	}
	return nil
}
