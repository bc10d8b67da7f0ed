package logscan

import (
	"bytes"
	"errors"
	"regexp"
	"regexp/syntax"
)

// Pattern is a regular expression. Its time for a line is at most the length of the line times instMax,
// because it never goes back.
type Pattern struct {
	re *regexp.Regexp
	// need is a text that each match has, if one is known. It is found much faster than the expression.
	need []byte
}

// instMax bounds the instructions of the program that an expression becomes. Counts such as {1000} make many.
const instMax = 1000

var errTooLarge = errors.New("the expression is too large: use smaller counts in {}")

// needMin is the least length of a text that is worth a search of its own.
const needMin = 2

// NewPattern reads a regular expression in Go's syntax. The error is for the person who wrote it.
func NewPattern(text string, matters bool) (*Pattern, error) {
	flags := syntax.Perl
	if !matters {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(text, flags)
	if err != nil {
		var at *syntax.Error
		if errors.As(err, &at) {
			return nil, errors.New(string(at.Code) + ": " + at.Expr)
		}
		return nil, err
	}
	tree = tree.Simplify()
	if prog, err := syntax.Compile(tree); err != nil || len(prog.Inst) > instMax {
		return nil, errTooLarge
	}
	if !matters {
		text = "(?i)" + text
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	p := &Pattern{re: re, need: needOf(tree, !matters)}
	if len(p.need) < needMin {
		p.need = nil
	}
	return p, nil
}

// needOf returns the longest text that it can find to be part of each match. It looks at simple forms only.
func needOf(e *syntax.Regexp, fold bool) (best []byte) {
	switch e.Op {
	case syntax.OpLiteral:
		if !fold && e.Flags&syntax.FoldCase != 0 {
			return nil
		}
		text := []byte(string(e.Rune))
		for _, c := range text {
			if fold && c >= 0x80 { // it has another case, and only A to Z are compared without it
				return nil
			}
		}
		return text
	case syntax.OpConcat:
		for _, part := range e.Sub {
			if text := needOf(part, fold); len(text) > len(best) {
				best = text
			}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return needOf(e.Sub[0], fold)
	case syntax.OpRepeat:
		if e.Min > 0 {
			return needOf(e.Sub[0], fold)
		}
	}
	return best
}

// in returns the place of the first match in a line.
func (p *Pattern) in(line []byte) (from, to int, ok bool) {
	at := p.re.FindIndex(bytes.TrimSuffix(line, []byte{'\r'}))
	if at == nil {
		return 0, 0, false
	}
	return at[0], at[1], true
}
