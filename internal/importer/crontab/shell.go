package crontab

import "strings"

// segment is one of the commands that a line joins with && || ; or &.
type segment struct {
	from, to int
	op       string // the operator after the segment; "" at the end of the line
}

// segments splits a line into its top-level commands. Text in quotes or brackets, or between if and fi,
// belongs to one command. segments returns false if it cannot split the line reliably: because of unclosed
// quotes, case, a here-document or a comment. The caller must then leave the line as it is.
func segments(s string) ([]segment, bool) {
	sc := scanner{s: s, verb: true}
	for sc.i < len(s) {
		if !sc.step() {
			return nil, false
		}
	}
	sc.all = append(sc.all, segment{sc.from, len(s), ""})
	return sc.all, sc.depth == 0
}

type scanner struct {
	s     string
	i     int
	from  int  // start of the segment
	depth int  // nesting of if … fi, do … done, { … }
	verb  bool // the next word is a command, so it may be a keyword
	all   []segment
}

// step scans one token. It returns false if it cannot tell what the token means.
func (sc *scanner) step() bool {
	switch c := sc.s[sc.i]; c {
	case ' ', '\t', '\n':
		sc.i++
		return true
	case ';', '&', '|':
		return sc.operator(c)
	case '<', '>':
		return sc.redirect(c)
	case '(':
		sc.verb = false
		return sc.bracket(')')
	case ')', '#':
		return false
	}
	return sc.word()
}

func (sc *scanner) operator(c byte) bool {
	next := byte(0)
	if sc.i+1 < len(sc.s) {
		next = sc.s[sc.i+1]
	}
	op := string(c)
	switch {
	case c == '&' && next == '>':
		sc.i += 2 // &> redirects both outputs to a file
		return true
	case c == next && c != ';':
		op += op
	case c == ';' && next == ';':
		return false
	}
	if sc.depth == 0 && op != "|" {
		sc.all = append(sc.all, segment{sc.from, sc.i, op})
		sc.from = sc.i + len(op)
	}
	sc.i += len(op)
	sc.verb = true
	return true
}

func (sc *scanner) redirect(c byte) bool {
	rest := sc.s[sc.i:]
	if strings.HasPrefix(rest, "<<<") {
		sc.i += 3
		return true
	}
	if strings.HasPrefix(rest, "<<") || strings.HasPrefix(rest, "<(") || strings.HasPrefix(rest, ">(") {
		return false
	}
	for sc.i++; sc.i < len(sc.s) && strings.IndexByte(">&|", sc.s[sc.i]) >= 0; sc.i++ {
	}
	return true
}

// word scans one word, and handles keywords.
func (sc *scanner) word() bool {
	start := sc.i
	for sc.i < len(sc.s) && strings.IndexByte(" \t\n;&|<>()", sc.s[sc.i]) < 0 {
		if !sc.piece(0) {
			return false
		}
	}
	if sc.i < len(sc.s) && sc.s[sc.i] == '(' {
		return false // a function definition, or a pattern of bash
	}
	if !sc.verb {
		return true
	}
	switch w := sc.s[start:sc.i]; w {
	case "if", "while", "until", "{":
		sc.depth++
	case "then", "else", "elif", "do", "!", "time":
	case "for", "select":
		// The ; before the do of this loop makes do the first word of a command, so it is found as a keyword.
		sc.depth, sc.verb = sc.depth+1, false
	case "fi", "done", "}":
		sc.depth, sc.verb = sc.depth-1, false
		return sc.depth >= 0
	case "case", "function":
		return false
	default:
		sc.verb = isAssignment(w)
	}
	return true
}

func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && isName(name)
}

// nestedMax bounds the nesting of brackets.
const nestedMax = 50

// piece scans one character of a word, or a whole quotation or substitution.
func (sc *scanner) piece(nested int) bool {
	if nested > nestedMax {
		return false
	}
	switch sc.s[sc.i] {
	case '\\':
		sc.i += 2
		return sc.i <= len(sc.s)
	case '\'':
		return sc.upTo('\'')
	case '`':
		return sc.quoted('`', nested)
	case '"':
		return sc.quoted('"', nested)
	case '$':
		return sc.dollar(nested)
	}
	sc.i++
	return true
}

// upTo moves past the next occurrence of c.
func (sc *scanner) upTo(c byte) bool {
	end := strings.IndexByte(sc.s[sc.i+1:], c)
	if end < 0 {
		return false
	}
	sc.i += end + 2
	return true
}

func (sc *scanner) quoted(end byte, nested int) bool {
	for sc.i++; sc.i < len(sc.s); {
		switch c := sc.s[sc.i]; {
		case c == end:
			sc.i++
			return true
		case c == '\\':
			sc.i += 2
		case c == '$' || c == '`':
			if !sc.piece(nested + 1) {
				return false
			}
		default:
			sc.i++
		}
	}
	return false
}

func (sc *scanner) dollar(nested int) bool {
	sc.i++
	if sc.i == len(sc.s) {
		return true
	}
	switch sc.s[sc.i] {
	case '(':
		return sc.inside(')', nested)
	case '{':
		return sc.inside('}', nested)
	}
	return true
}

func (sc *scanner) bracket(end byte) bool { return sc.inside(end, 0) }

// inside moves from an opening bracket past its closing one.
func (sc *scanner) inside(end byte, nested int) bool {
	for sc.i++; sc.i < len(sc.s); {
		switch c := sc.s[sc.i]; {
		case c == end:
			sc.i++
			return true
		case c == '(':
			if nested >= nestedMax || !sc.inside(')', nested+1) {
				return false
			}
		case !sc.piece(nested + 1):
			return false
		}
	}
	return false
}
