package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	yaml "github.com/goccy/go-yaml"
	"golang.org/x/term"

	api "skein.dev/skein/sdk/api/v1"
)

// formats are the values of -o.
var formats = []string{"table", "json", "jsonl", "yaml", "name"}

func checkFormat(f string) error {
	if !slices.Contains(formats, f) {
		return usage("-o %s: use one of %s", f, strings.Join(formats, ", "))
	}
	return nil
}

// column is one column of a table. In a pipe, plain is used instead, if it is set.
type column[T any] struct {
	head  string
	get   func(T) string
	plain func(T) string
}

// show writes a list in the requested format. The default is a table on a terminal. In a pipe it has the same
// columns, separated by tabs, without heads, colour or truncation. An empty list is [].
func show[T any](c *cli, items []T, name func(T) string, cols []column[T]) error {
	if items == nil {
		items = []T{}
	}
	l := listOf(items, cols)
	l.all, l.item = items, func(i int) any { return items[i] }
	l.name = func(i int) string { return name(items[i]) }
	return l.show(c)
}

// listing is a list without its type, because the compiler copies the code of each type.
type listing struct {
	all   any
	size  int
	heads []string
	item  func(i int) any
	name  func(i int) string
	cell  func(i, k int, plain bool) string
}

func listOf[T any](items []T, cols []column[T]) *listing {
	l := &listing{size: len(items), heads: make([]string, len(cols))}
	for k := range cols {
		l.heads[k] = cols[k].head
	}
	l.cell = func(i, k int, plain bool) string {
		if plain && cols[k].plain != nil {
			return cols[k].plain(items[i])
		}
		return cols[k].get(items[i])
	}
	return l
}

func (l *listing) show(c *cli) error {
	switch c.format {
	case "json":
		return c.json(l.all)
	case "yaml":
		return c.yaml(l.all)
	case "jsonl":
		enc := newEncoder(c.out)
		for i := range l.size {
			if err := enc.Encode(l.item(i)); err != nil {
				return err
			}
		}
		return nil
	case "name":
		for i := range l.size {
			fmt.Fprintln(c.out, l.name(i))
		}
		return nil
	}
	if !c.outTTY {
		return l.plain(c.out)
	}
	return l.table(c)
}

func newEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

// one writes a single object. For the default format it calls table.
func one[T any](c *cli, item T, name string, table func() error) error {
	switch c.format {
	case "json":
		return c.json(item)
	case "jsonl":
		return newEncoder(c.out).Encode(item)
	case "yaml":
		return c.yaml(item)
	case "name":
		_, err := fmt.Fprintln(c.out, name)
		return err
	}
	return table()
}

func (c *cli) json(v any) error {
	enc := newEncoder(c.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// yaml writes a value as YAML, with the names and the order of its JSON.
func (c *cli) yaml(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	out, err := yaml.JSONToYAML(text)
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	_, err = c.out.Write(out)
	return err
}

func showPlain[T any](w io.Writer, items []T, cols []column[T]) error {
	return listOf(items, cols).plain(w)
}

func (l *listing) plain(w io.Writer) error {
	clean := strings.NewReplacer("\t", " ", "\n", " ", "\r", " ")
	for i := range l.size {
		cells := make([]string, len(l.heads))
		for k := range cells {
			cells[k] = clean.Replace(l.cell(i, k, true))
		}
		if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return nil
}

func (l *listing) table(c *cli) error {
	rows := make([][]string, 0, l.size+1)
	head := make([]string, len(l.heads))
	for k := range head {
		head[k] = c.paint(dim, l.heads[k])
	}
	rows = append(rows, head)
	for i := range l.size {
		cells := make([]string, len(l.heads))
		for k := range cells {
			cells[k] = strings.ReplaceAll(l.cell(i, k, false), "\n", " ")
		}
		rows = append(rows, cells)
	}
	return writeRows(c, rows)
}

// writeRows writes aligned columns. It ignores the width of colours, and cuts the last column at the edge of
// the terminal.
func writeRows(c *cli, rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for k, cell := range row {
			if k == len(widths) {
				widths = append(widths, 0)
			}
			widths[k] = max(widths[k], width(cell))
		}
	}
	edge := c.columns()
	for _, row := range rows {
		var b strings.Builder
		at := 0
		for k, cell := range row {
			if k == len(row)-1 {
				b.WriteString(cut(cell, edge-at))
				break
			}
			b.WriteString(cell)
			b.WriteString(strings.Repeat(" ", widths[k]-width(cell)+2))
			at += widths[k] + 2
		}
		if _, err := fmt.Fprintln(c.out, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// columns returns the width of the terminal.
func (c *cli) columns() int {
	for _, w := range []any{c.out, c.err} {
		if f, ok := w.(interface{ Fd() uintptr }); ok {
			if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
				return n
			}
		}
	}
	return 120
}

// width returns the number of visible characters of a text. It ignores escape sequences.
func width(s string) int {
	n, inside := 0, false
	for _, r := range s {
		switch {
		case r == '\x1b':
			inside = true
		case inside:
			inside = r != 'm'
		default:
			n++
		}
	}
	return n
}

// cut shortens a text without colours to n columns.
func cut(s string, n int) string {
	if n < 8 || width(s) <= n || strings.ContainsRune(s, '\x1b') {
		return s
	}
	for utf8.RuneCountInString(s) > n-1 {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s + "…"
}

// Colours.
const (
	dim    = "2"
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	blue   = "34"
)

func (c *cli) paint(code, s string) string {
	if !c.colour || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// looks maps states to the form in which they are shown: always a word, and on a terminal also a sign and a
// colour.
var looks = map[string][2]string{
	"succeeded": {"✓", green}, "failed": {"✗", red}, "upstream_failed": {"✗", dim}, "stopped": {"■", yellow},
	"skipped": {"○", dim}, "running": {"●", blue}, "assigned": {"●", blue}, "splitting": {"●", blue}, "finalising": {"●", blue},
	"ready": {"◌", ""}, "pending": {"·", dim}, "submitted": {"◌", ""}, "waiting": {"◌", yellow}, "retry_wait": {"↻", yellow}, "deferred": {"⧗", yellow},
	"paused": {"‖", yellow}, "suspended": {"‖", dim}, "lost": {"?", yellow}, "active": {"●", green}, "deleted": {"✗", dim},
	"ended": {"○", dim}, "done": {"✓", green}, "cancelled": {"■", yellow}, "planned": {"·", dim},
	"fired": {"✓", green}, "late": {"✓", yellow}, "merged": {"○", dim}, "missed": {"✗", red},
}

func (c *cli) state(s string) string {
	if !c.outTTY {
		return s
	}
	look := looks[s]
	if look[0] == "" {
		return s
	}
	return c.paint(look[1], look[0]+" "+s)
}

// when formats a time: relative to now on a terminal, and as RFC 3339 in a pipe.
func (c *cli) when(t *api.Time) string {
	switch {
	case t == nil || t.IsZero():
		return "-"
	case !c.outTTY:
		return t.String()
	}
	return ago(time.Since(t.Time))
}

func ago(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Second:
		return "just now"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	}
	return fmt.Sprintf("%dd ago", int(d.Hours()/24))
}

// took returns the duration from one time to another, or to now if there is no end.
func took(from, to *api.Time) string {
	if from == nil || from.IsZero() {
		return "-"
	}
	end := time.Now()
	if to != nil {
		end = to.Time
	}
	return length(end.Sub(from.Time))
}

func length(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 10*time.Second:
		return fmt.Sprintf("%.2fs", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

func text[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}
