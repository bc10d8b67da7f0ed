package logscan

import (
	"bytes"
	"errors"
	"regexp"
	"regexp/syntax"
)

// Pattern is a regular expression. The time to match a line is bounded by the length of the line times
// instMax, because the matcher never backtracks.
type Pattern struct {
	re *regexp.Regexp
	// need is a text that each match contains, or nil if none is known. Searching for it is much faster than
	// matching the expression.
	need []byte
}

// instMax bounds the instructions of a compiled expression. Counts such as {1000} produce many.
const instMax = 1000

var errTooLarge = errors.New("the expression is too large: use smaller counts in {}")

// needMin is the shortest text for which a separate search is worth its cost.
const needMin = 2

// NewPattern compiles a regular expression in Go's syntax. matters says whether case matters. The error is
// meant for the person who wrote the expression.
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

// needOf returns a text that each match contains, the longest that it can find. It examines only simple
// forms.
func needOf(e *syntax.Regexp, fold bool) (best []byte) {
	switch e.Op {
	case syntax.OpLiteral:
		if !fold && e.Flags&syntax.FoldCase != 0 {
			return nil
		}
		text := []byte(string(e.Rune))
		for _, c := range text {
			if fold && c >= 0x80 { // the letter has another case, and folding covers only A to Z
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

// in returns the position of the first match in a line.
func (p *Pattern) in(line []byte) (from, to int, ok bool) {
	at := p.re.FindIndex(bytes.TrimSuffix(line, []byte{'\r'}))
	if at == nil {
		return 0, 0, false
	}
	return at[0], at[1], true
}
