// Package sqltext splits texts of SQL into statements and finds the parameters in them. It does not
// understand SQL: it only knows where comments, texts and names begin and end. Values are bound by the
// database, so a parameter that is found at a wrong place makes a statement fail, and cannot change
// what it does.
package sqltext

import (
	"strings"
)

// Dialect is the language of a database.
type Dialect int

// The dialects.
const (
	Postgres Dialect = iota
	MySQL            // MariaDB, too
	SQLite
	ClickHouse
)

// Dialects lists all dialects.
var Dialects = []Dialect{Postgres, MySQL, SQLite, ClickHouse}

// Statement is one statement of a text.
type Statement struct {
	Parts []Part
	// Words are the first words of the statement in capitals, up to WordsMax.
	Words []string
}

// WordsMax bounds Statement.Words.
const WordsMax = 8

// Part is a text that goes to the database as it is, or a parameter.
type Part struct {
	Text  string
	Param string // name of the parameter; "" if the part is Text
}

// Word returns a word of the beginning of the statement; "" if it has fewer.
func (s *Statement) Word(i int) string {
	if i < len(s.Words) {
		return s.Words[i]
	}
	return ""
}

// Params returns the names of the parameters, in the order in which they occur. A name may occur several
// times.
func (s *Statement) Params() []string {
	var names []string
	for _, p := range s.Parts {
		if p.Param != "" {
			names = append(names, p.Param)
		}
	}
	return names
}

// Render makes the text of the statement. put returns the text for a parameter.
func (s *Statement) Render(put func(name string) string) string {
	var b strings.Builder
	for _, p := range s.Parts {
		if p.Param != "" {
			b.WriteString(put(p.Param))
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// Split returns the statements of a text. Statements without a word, such as comments, are left out.
// known says which names are parameters where the text may mean something else: @NAME in PostgreSQL. A
// routine with BEGIN and END has semicolons of its own, so CREATE FUNCTION, PROCEDURE, TRIGGER or EVENT
// with BEGIN takes the rest of the text.
func Split(text string, d Dialect, known func(name string) bool) []Statement {
	r := reader{text: text, d: d, known: known}
	for r.at < len(r.text) {
		r.next()
	}
	r.end()
	return r.all
}

// reader is the state of Split.
type reader struct {
	text  string
	d     Dialect
	known func(string) bool
	at    int // the next byte
	from  int // the first byte that no part has yet

	now  Statement
	some bool // the statement has more than space and comments
	rest bool // the statement takes the rest of the text
	all  []Statement
}

// end ends the statement.
func (r *reader) end() {
	r.flush(r.at)
	if r.some {
		r.all = append(r.all, r.now)
	}
	r.now, r.some = Statement{}, false
}

// flush adds the text before byte number until to the current statement, as one part.
func (r *reader) flush(until int) {
	if until > r.from {
		r.now.Parts = append(r.now.Parts, Part{Text: r.text[r.from:until]})
	}
	r.from = until
}

// peek returns a byte after the current one, or 0 at the end.
func (r *reader) peek(n int) byte {
	if r.at+n < len(r.text) {
		return r.text[r.at+n]
	}
	return 0
}

// next reads one item.
func (r *reader) next() {
	c := r.text[r.at]
	switch {
	case r.comment(c), r.quoted(c):
	case c == ';' && !r.rest:
		r.end()
		r.at++
		r.from = r.at
	case c == ':' && begins(r.peek(1)) && !r.after():
		r.param()
	case c == '@' && r.d == Postgres && begins(r.peek(1)) && r.known(r.name(r.at+1)):
		r.param()
	case begins(c) || c >= 0x80:
		r.word()
	case isSpace(c):
		r.at++
	case c == ':' && r.peek(1) == ':': // a cast
		r.at, r.some = r.at+2, true
	default:
		r.at, r.some = r.at+1, true
		for c >= '0' && c <= '9' && r.at < len(r.text) && continues(r.text[r.at]) {
			r.at++
		}
	}
}

// after reports whether a colon follows something that takes it: an index, as in a[1:n], or a cast.
func (r *reader) after() bool {
	if r.at == 0 {
		return false
	}
	c := r.text[r.at-1]
	return continues(c) || c == ']' || c == ')' || c == ':' || c == '"' || c == '\'' || c == '`'
}

func (r *reader) name(from int) string {
	to := from
	for to < len(r.text) && continues(r.text[to]) && r.text[to] < 0x80 && r.text[to] != '$' {
		to++
	}
	return r.text[from:to]
}

// param reads a parameter, whose first byte is : or @.
func (r *reader) param() {
	name := r.name(r.at + 1)
	r.flush(r.at)
	r.now.Parts = append(r.now.Parts, Part{Param: name})
	r.at += 1 + len(name)
	r.from, r.some = r.at, true
}

func (r *reader) word() {
	from := r.at
	for r.at < len(r.text) && continues(r.text[r.at]) {
		r.at++
	}
	r.some = true
	word := strings.ToUpper(r.text[from:r.at])
	if len(r.now.Words) < WordsMax {
		r.now.Words = append(r.now.Words, word)
	}
	if word == "BEGIN" && r.routine() {
		r.rest = true
	}
}

// routine reports whether the statement makes a routine, or is a block of MariaDB.
func (r *reader) routine() bool {
	if r.now.Word(0) == "BEGIN" && r.d == MySQL {
		rest := strings.Fields(r.text[r.at:min(len(r.text), r.at+100)])
		return len(rest) > 1 && strings.EqualFold(rest[0], "NOT") && strings.EqualFold(rest[1], "ATOMIC")
	}
	if r.now.Word(0) != "CREATE" {
		return false
	}
	for _, w := range r.now.Words {
		switch w {
		case "FUNCTION", "PROCEDURE", "TRIGGER", "EVENT", "PACKAGE":
			return true
		}
	}
	return false
}

// comment skips a comment.
func (r *reader) comment(c byte) bool {
	switch {
	case c == '-' && r.peek(1) == '-' && (r.d != MySQL || r.peek(2) == 0 || isSpace(r.peek(2))), c == '#' && r.d == MySQL:
		if n := strings.IndexByte(r.text[r.at:], '\n'); n >= 0 {
			r.at += n + 1
		} else {
			r.at = len(r.text)
		}
	case c == '/' && r.peek(1) == '*' && r.d == MySQL && (r.peek(2) == '!' || r.peek(2) == 'M' && r.peek(3) == '!'):
		r.at, r.some = r.at+3, true // the server executes the content of such a comment
		for r.at < len(r.text) && (r.text[r.at] == '!' || r.text[r.at] >= '0' && r.text[r.at] <= '9') {
			r.at++
		}
	case c == '/' && r.peek(1) == '*':
		deep := 1
		for r.at += 2; deep > 0 && r.at < len(r.text); {
			switch rest := r.text[r.at:]; {
			case strings.HasPrefix(rest, "*/"):
				deep, r.at = deep-1, r.at+2
			case strings.HasPrefix(rest, "/*") && r.d == Postgres:
				deep, r.at = deep+1, r.at+2
			default:
				r.at++
			}
		}
	default:
		return false
	}
	return true
}

// quoted skips a text or a quoted name.
func (r *reader) quoted(c byte) bool {
	backslash := r.d == MySQL || r.d == ClickHouse
	switch {
	case c == '\'':
		if r.d == Postgres && r.at > 0 && strings.ContainsRune("eE", rune(r.text[r.at-1])) && (r.at == 1 || !continues(r.text[r.at-2])) {
			backslash = true
		}
		r.until('\'', backslash)
	case c == '"':
		r.until('"', backslash)
	case c == '`' && r.d != Postgres:
		r.until('`', r.d == ClickHouse)
	case c == '[' && r.d == SQLite:
		r.until(']', false)
	case c == '$' && r.d == Postgres && (r.at == 0 || !continues(r.text[r.at-1])):
		return r.dollar()
	default:
		return false
	}
	r.some = true
	return true
}

// until skips to the end of a text that begins here. A doubled quote stands for itself.
func (r *reader) until(quote byte, backslash bool) {
	for r.at++; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '\\' && backslash:
			r.at++
		case c == quote && r.peek(1) == quote && quote != ']':
			r.at++
		case c == quote:
			r.at++
			return
		}
	}
	r.at = min(r.at, len(r.text))
}

// dollar skips a text in dollar quotes.
func (r *reader) dollar() bool {
	to := r.at + 1
	for to < len(r.text) && continues(r.text[to]) && r.text[to] != '$' {
		to++
	}
	if to >= len(r.text) || r.text[to] != '$' || to > r.at+1 && r.text[r.at+1] >= '0' && r.text[r.at+1] <= '9' {
		return false
	}
	mark := r.text[r.at : to+1]
	r.some = true
	if n := strings.Index(r.text[to+1:], mark); n >= 0 {
		r.at = to + 1 + n + len(mark)
	} else {
		r.at = len(r.text)
	}
	return true
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// begins reports whether a byte may begin the name of a parameter.
func begins(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// continues reports whether a byte may be within a word.
func continues(c byte) bool { return begins(c) || c >= '0' && c <= '9' || c == '$' || c >= 0x80 }
