package argo

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"skein.dev/skein/internal/importer"
)

// dependsToken matches a part of depends: an operator, or a task with the result that it must have.
var dependsToken = regexp.MustCompile(`^\s*(?:(&&|\|\||!|\(|\))|([A-Za-z0-9_-]+)(?:\.([A-Za-z]+))?)`)

// namesOf returns the names of the tasks in a depends.
func namesOf(text string) []string {
	var all []string
	for text = strings.TrimSpace(text); text != ""; {
		m := dependsToken.FindStringSubmatch(text)
		if m == nil {
			return all
		}
		if m[2] != "" {
			all = append(all, m[2])
		}
		text = strings.TrimSpace(text[len(m[0]):])
	}
	return all
}

// depends converts a depends expression to needs and an if. cond is "" if every needed task must have
// succeeded, because needs alone means that.
func (s *scope) depends(text string) (needs []string, cond string, err error) {
	plain, not := true, false
	var b strings.Builder
	for rest := strings.TrimSpace(text); rest != ""; {
		m := dependsToken.FindStringSubmatch(rest)
		if m == nil {
			return nil, "", fmt.Errorf("depends: the importer does not understand %s; write needs and if by hand", strconv.Quote(importer.Clip(rest, 40)))
		}
		rest = strings.TrimSpace(rest[len(m[0]):])
		if m[2] == "" {
			plain, not = plain && m[1] == "&&", m[1] == "!"
			switch m[1] {
			case "&&", "||":
				b.WriteString(" " + m[1] + " ")
			default:
				b.WriteString(m[1])
			}
			continue
		}
		n := s.nodes[m[2]]
		if n == nil {
			return nil, "", fmt.Errorf("depends: the task %s does not exist", importer.Clip(m[2], 60))
		}
		needs = append(needs, n.ends...)
		is, ok := n.is(m[3])
		if !ok {
			return nil, "", fmt.Errorf("depends: the importer does not convert %s.%s; write needs and if by hand", m[2], m[3])
		}
		plain = plain && (m[3] == "" || m[3] == "Succeeded") && !n.maySkip && !n.goesOn
		if not && !strings.HasPrefix(is, "(") { // ! binds tighter than the comparison
			is = "(" + is + ")"
		}
		b.WriteString(is)
		not = false
	}
	if plain {
		return needs, "", nil
	}
	return needs, b.String(), nil
}

// is returns an expression that is true if the node ended with the status.
func (n *node) is(status string) (string, bool) {
	states, sign := []string{"succeeded", "skipped"}, " && "
	switch status {
	case "":
		if n.goesOn {
			states = append(states, "failed")
		}
	case "Succeeded":
		states = states[:1]
	case "Skipped":
		states = states[1:]
	case "Failed", "Errored":
		states, sign = []string{"failed", "upstream_failed"}, " || "
	default:
		return "", false
	}
	all := make([]string, len(n.ends))
	for i, end := range n.ends {
		all[i] = importer.StateIn(end, states...)
	}
	if len(all) == 1 {
		return all[0], true
	}
	return "(" + strings.Join(all, sign) + ")", len(all) > 0
}

var comparison = regexp.MustCompile(`^(.+?)\s*(==|!=|<=|>=|<|>)\s*(.+)$`)

// bracketsMax bounds how deep the brackets of a condition are.
const bracketsMax = 50

// split cuts a condition at each occurrence of an operator outside of brackets. It returns nil if brackets
// are not closed, or are nested too deeply.
func split(text, sign string) (parts []string) {
	depth, from := 0, 0
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '(':
			if depth++; depth > bracketsMax {
				return nil
			}
		case text[i] == ')':
			if depth--; depth < 0 {
				return nil
			}
		case depth == 0 && strings.HasPrefix(text[i:], sign):
			parts, from = append(parts, text[from:i]), i+len(sign)
			i = from - 1
		}
	}
	if depth > 0 {
		return nil
	}
	return append(parts, text[from:])
}

// when converts a condition of simple comparisons, which may be joined by && and || and put in brackets.
func (s *scope) when(text string) (string, error) {
	whole := strings.TrimSpace(text)
	if whole == "true" || whole == "false" {
		return whole, nil
	}
	for _, sign := range []string{"||", "&&"} {
		if parts := split(whole, sign); len(parts) > 1 {
			for i, p := range parts {
				c, err := s.when(p)
				if err != nil {
					return "", err
				}
				if parts[i] = c; strings.Contains(c, "&&") || strings.Contains(c, "||") {
					parts[i] = "(" + c + ")"
				}
			}
			return strings.Join(parts, " "+sign+" "), nil
		}
	}
	if inner, ok := strings.CutPrefix(whole, "("); ok {
		if inner, ok = strings.CutSuffix(inner, ")"); ok && split(inner, "||") != nil {
			return s.when(inner)
		}
	}
	fail := fmt.Errorf("when: %s is not a simple comparison; write if by hand", strconv.Quote(importer.Clip(whole, 60)))
	m := comparison.FindStringSubmatch(whole)
	if m == nil || strings.ContainsAny(reference.ReplaceAllString(whole, ""), "()~?+") {
		return "", fail
	}
	var sides [2]string
	for i, side := range []string{m[1], m[3]} {
		side = strings.TrimSpace(side)
		if n := len(side); n > 1 && (side[0] == '"' || side[0] == '\'') && side[n-1] == side[0] {
			side = side[1 : n-1]
		}
		v, err := s.value(side)
		if err != nil {
			return "", fmt.Errorf("when: %w", err)
		}
		c, known := v.Const()
		_, notNumber := strconv.ParseFloat(c, 64)
		switch {
		case strings.ContainsAny(m[2], "<>") && known && notNumber != nil:
			return "", fail
		case strings.ContainsAny(m[2], "<>") && known:
			sides[i] = c
		case strings.ContainsAny(m[2], "<>"):
			sides[i] = "double(" + v.CEL() + ")"
		default:
			sides[i] = v.CEL()
		}
	}
	return sides[0] + " " + m[2] + " " + sides[1], nil
}

// both joins two conditions.
func both(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return paren(a) + " && " + paren(b)
}

func paren(c string) string {
	if strings.Contains(c, "||") {
		return "(" + c + ")"
	}
	return c
}
