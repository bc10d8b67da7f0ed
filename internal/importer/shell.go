package importer

import (
	"errors"
	"strings"
)

// A Finder looks for a reference at the beginning of a text. It returns the variable that holds the value,
// and the length of the reference in bytes. The length is 0 if there is no reference. A plain reference is
// one that sh resolves by itself. It stays as it is, except in single quotes, where sh does not resolve it.
type Finder func(rest string) (variable string, n int, plain bool)

var (
	errQuotedHere = errors.New("a value is in a here-document with a quoted word, where sh replaces no variables; remove the quotes, or read the variable in the script")
	errDollar     = errors.New("a value is in $'…', where sh replaces no variables; use double quotes")
)

// Shell replaces the references in a text for sh with variables. Where sh expands variables, Shell writes
// ${NAME}. In single quotes it ends the quote, writes "${NAME}" and begins the quote again.
func Shell(text string, find Finder) (string, error) {
	s := &shellText{text: text, find: find}
	for s.at < len(s.text) {
		if err := s.step(); err != nil {
			return "", err
		}
	}
	return s.out.String(), nil
}

// shellText is the state of a walk over a script. open holds the enclosing constructs, each as one of the
// characters " ' ` and (.
type shellText struct {
	text string
	at   int
	out  strings.Builder
	open []byte
	here []hereDocument // the here-documents that begin in this line
	find Finder
}

type hereDocument struct {
	word   string
	quoted bool
	tabs   bool // <<- ignores tabs before the end word
}

func (s *shellText) inside() byte {
	if len(s.open) == 0 {
		return 0
	}
	return s.open[len(s.open)-1]
}

func (s *shellText) take(n int) {
	s.out.WriteString(s.text[s.at : s.at+n])
	s.at += n
}

func (s *shellText) pop() { s.open = s.open[:len(s.open)-1] }

func (s *shellText) step() error {
	rest, in := s.text[s.at:], s.inside()
	if name, n, plain := s.find(rest); n > 0 {
		switch {
		case in == '$':
			return errDollar
		case in == '\'':
			s.out.WriteString(`'"${` + name + `}"'`)
		case plain:
			s.out.WriteString(rest[:n])
		default:
			s.out.WriteString("${" + name + "}")
		}
		s.at += n
		return nil
	}
	c := rest[0]
	switch {
	case in == '\'':
		if c == '\'' {
			s.pop()
		}
	case c == '\\' && len(rest) > 1:
		s.take(1)
	case in == '$':
		if c == '\'' {
			s.pop()
		}
	case strings.HasPrefix(rest, "$("):
		s.take(1)
		s.open = append(s.open, '(')
	case c == '`' && in == '`', c == '"' && in == '"':
		s.pop()
	case c == '`', c == '"':
		s.open = append(s.open, c)
	case in != '"':
		return s.code(rest)
	}
	s.take(1)
	return nil
}

// code handles a character outside of quotes.
func (s *shellText) code(rest string) error {
	switch c := rest[0]; {
	case strings.HasPrefix(rest, "$'"):
		s.take(1)
		s.open = append(s.open, '$')
	case c == '\'':
		s.open = append(s.open, c)
	case c == '(' && len(s.open) > 0:
		s.open = append(s.open, c)
	case c == ')' && s.inside() == '(':
		s.pop()
	case c == '#' && (s.at == 0 || strings.ContainsRune(" \t\n;", rune(s.text[s.at-1]))):
		if n := strings.IndexByte(rest, '\n'); n >= 0 {
			s.take(n)
		} else {
			s.take(len(rest))
		}
		return nil
	case strings.HasPrefix(rest, "<<<"):
		s.take(2)
	case strings.HasPrefix(rest, "<<"):
		s.take(2)
		s.hereWord()
		return nil
	case c == '\n' && len(s.here) > 0:
		s.take(1)
		return s.bodies()
	}
	s.take(1)
	return nil
}

// hereWord reads the word that ends a here-document.
func (s *shellText) hereWord() {
	h := hereDocument{}
	if strings.HasPrefix(s.text[s.at:], "-") {
		h.tabs = true
		s.take(1)
	}
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\t') {
		s.take(1)
	}
	n := 0
	for n < len(s.text)-s.at && !strings.ContainsRune(" \t\n;&|<>()", rune(s.text[s.at+n])) {
		n++
	}
	word := s.text[s.at : s.at+n]
	h.word = strings.NewReplacer(`'`, "", `"`, "", `\`, "").Replace(word)
	h.quoted = h.word != word
	s.take(n)
	if h.word != "" {
		s.here = append(s.here, h)
	}
}

// bodies walks over the here-documents that have begun in this line.
func (s *shellText) bodies() error {
	for _, h := range s.here {
		for s.at < len(s.text) {
			line := s.text[s.at:]
			if n := strings.IndexByte(line, '\n'); n >= 0 {
				line = line[:n+1]
			}
			end := strings.TrimSuffix(line, "\n")
			if h.tabs {
				end = strings.TrimLeft(end, "\t")
			}
			if end == h.word {
				s.take(len(line))
				break
			}
			if err := s.bodyLine(len(line), h.quoted); err != nil {
				return err
			}
		}
	}
	s.here = nil
	return nil
}

func (s *shellText) bodyLine(n int, quoted bool) error {
	for end := s.at + n; s.at < end; {
		name, n, plain := s.find(s.text[s.at:end])
		switch {
		case n == 0:
			s.take(1)
			continue
		case quoted && !plain:
			return errQuotedHere
		case plain:
			s.take(n)
			continue
		}
		s.out.WriteString("${" + name + "}")
		s.at += n
	}
	return nil
}

// QuoteShell quotes a text as one word for sh.
func QuoteShell(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-", r))
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
