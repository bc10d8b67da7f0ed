package crontab

import (
	"strings"
	"unicode/utf8"

	"skein.dev/skein/internal/importer"
)

// line is one line of the file, without its end.
type line struct {
	number int // from 1
	text   string
}

// cutLines splits a text into lines. It also accepts Windows line ends. Cron would pass their carriage return
// to the command, but no command wants it.
func cutLines(text string) []line {
	var lines []line
	for s := range strings.SplitSeq(text, "\n") {
		lines = append(lines, line{len(lines) + 1, strings.TrimSuffix(s, "\r")})
	}
	return lines
}

// space reports whether cron skips a byte between fields. \v and \f are blanks only in variables.
func space(c byte) bool { return c == ' ' || c == '\t' }

// begin returns the offset of the first non-blank character.
func (l *line) begin() int { return skip(l.text, 0) }

func skip(s string, i int) int {
	for i < len(s) && space(s[i]) {
		i++
	}
	return i
}

// wordEnd returns the offset of the first blank at or after i.
func wordEnd(s string, i int) int {
	for i < len(s) && !space(s[i]) {
		i++
	}
	return i
}

// column returns the column of an offset, from 1, in characters.
func (l *line) column(at int) int { return utf8.RuneCountInString(l.text[:min(at, len(l.text))]) + 1 }

// shownMax bounds the characters of a line in reports and descriptions.
const shownMax = 1000

// shown returns the line for people: blanks trimmed, tabs and unprintable characters replaced by spaces.
func (l *line) shown() string {
	return importer.Clip(importer.OneLine(strings.ToValidUTF8(strings.TrimSpace(l.text), "?")), shownMax)
}

type lineKind uint8

const (
	blankLine lineKind = iota
	commentLine
	variableLine
	entryLine
)

// kind returns the kind of a line. Like cron, it takes every line that can be parsed as a variable for one.
func (l *line) kind() (lineKind, *variable) {
	rest := l.text[l.begin():]
	switch {
	case strings.TrimSpace(rest) == "":
		return blankLine, nil
	case rest[0] == '#':
		return commentLine, nil
	}
	if v := parseVariable(rest); v != nil {
		return variableLine, v
	}
	return entryLine, nil
}

// variable is NAME=value.
type variable struct{ name, value string }

// parseVariable reads NAME=value by cron's rules and returns nil for any other line. Blanks around = are
// allowed. Single or double quotes around the name or the value keep all characters inside as they are. An
// unquoted value loses the blanks at its end. There are no escapes, and $ has no meaning.
func parseVariable(s string) *variable {
	name, rest, ok := quotedName(s)
	if !ok {
		return nil
	}
	if rest = trimSpaceLeft(rest); !strings.HasPrefix(rest, "=") {
		return nil
	}
	value := trimSpaceLeft(rest[1:])
	if value == "" || value[0] != '"' && value[0] != '\'' {
		return &variable{name, strings.TrimRightFunc(value, asciiSpace)}
	}
	end := strings.IndexByte(value[1:], value[0])
	if end < 0 || trimSpaceLeft(value[end+2:]) != "" {
		return nil
	}
	return &variable{name, value[1 : end+1]}
}

// quotedName parses the name before a =.
func quotedName(s string) (name, rest string, ok bool) {
	if s[0] == '"' || s[0] == '\'' {
		end := strings.IndexByte(s[1:], s[0])
		if end < 0 || strings.Contains(s[1:end+1], "=") {
			return "", "", false
		}
		return s[1 : end+1], s[end+2:], true
	}
	end := strings.IndexFunc(s, func(r rune) bool { return r == '=' || asciiSpace(r) })
	if end < 0 {
		return "", "", false
	}
	return s[:end], s[end:], true
}

func asciiSpace(r rune) bool { return r == ' ' || r >= '\t' && r <= '\r' }

func trimSpaceLeft(s string) string { return strings.TrimLeftFunc(s, asciiSpace) }

// entry is a parsed line with a command.
type entry struct {
	line    *line
	above   []string // the comment above it
	at      string   // the word after @; "" if the line has time fields
	fields  [5]field
	period  string // the period of an entry of anacron
	delay   int    // anacron: the delay in minutes
	id      string // anacron: the name of the job
	user    string // "" is the owner of the crontab
	command string // the command as written, with its %
	begin   int    // offset of the command in the line
	notes   []string
}

// field is one time field and its position in the line.
type field struct {
	text string
	at   int
}

// parseEntry parses an entry.
func (c *converter) parseEntry(l *line) (*entry, *fault) {
	if c.opt.Format == Anacron {
		return parseAnacron(l)
	}
	e := &entry{line: l}
	i := l.begin()
	if l.text[i] == '-' {
		e.notes = append(e.notes, "the - before the line only kept cron from writing to the system log")
		i = skip(l.text, i+1)
	}
	var f *fault
	if i < len(l.text) && l.text[i] == '@' {
		end := wordEnd(l.text, i)
		e.at = l.text[i+1 : end]
		if f := checkAt(e.at, i); f != nil {
			return nil, f
		}
		i = skip(l.text, end)
	} else if i, f = e.takeFields(i); f != nil {
		return nil, f
	}
	if c.opt.Format == System {
		if i, f = e.takeUser(i); f != nil {
			return nil, f
		}
	}
	for strings.HasPrefix(l.text[i:], "-n ") || strings.HasPrefix(l.text[i:], "-n\t") {
		e.notes = append(e.notes, "the -n before the command only kept cron from mailing the output of a successful command")
		i = skip(l.text, i+2)
	}
	if e.begin, e.command = i, l.text[i:]; strings.TrimSpace(e.command) == "" {
		return nil, &fault{i, "the line has no command", "add the command at the end of the line"}
	}
	return e, nil
}

func (e *entry) takeFields(i int) (int, *fault) {
	text, all := e.line.text, specs()
	for n := range e.fields {
		end := wordEnd(text, i)
		if end == i {
			return i, &fault{i, "the line has only " + plural(n, "field"),
				"write minute, hour, day of month, month, day of week and a command, or NAME=value"}
		}
		e.fields[n] = field{text[i:end], i}
		if f := all[n].check(e.fields[n]); f != nil {
			return i, f
		}
		i = skip(text, end)
	}
	return i, nil
}

func (e *entry) takeUser(i int) (int, *fault) {
	text := e.line.text
	end := wordEnd(text, i)
	if end == i {
		return i, &fault{i, "the line has no user and no command", "a line of this format is: five time fields, user, command"}
	}
	e.user = text[i:end]
	next := skip(text, end)
	if next == len(text) {
		return next, &fault{next, "the line has no command after the user " + e.user,
			"a line of this format is: five time fields, user, command; --format user if there is no user"}
	}
	return next, nil
}
