package workflow

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// parseJSON reads a document in JSON, such as a file ending in .json or the output of a program. Its time is
// linear in the length of the text, unlike that of the YAML parser. It returns false if the text is not JSON.
// The text may then still be YAML in flow style.
func (s *source) parseJSON(c chunk) (*node, bool) {
	p := jsonTree{text: c.text, row: c.line, col: 1}
	p.dec = json.NewDecoder(strings.NewReader(c.text))
	p.dec.UseNumber()
	n, err := p.value(0)
	if err == errTooDeep {
		line, col := p.position(int(p.dec.InputOffset()))
		s.fail(line, col, "", fmt.Sprintf("lists and mappings are nested more than %d deep", depthMax), "")
		return nil, true
	}
	if err != nil {
		return nil, false
	}
	if _, err := p.dec.Token(); err != io.EOF {
		return nil, false
	}
	return n, true
}

var errTooDeep = fmt.Errorf("nested more than %d deep", depthMax)

type jsonTree struct {
	dec  *json.Decoder
	text string
	// seen, row and col are the present position. Offsets only grow, so each byte is examined once.
	seen, row, col int
}

func (p *jsonTree) position(offset int) (line, col int) {
	for _, r := range p.text[p.seen:offset] {
		p.col++
		if r == '\n' {
			p.row, p.col = p.row+1, 1
		}
	}
	p.seen = offset
	return p.row, p.col
}

// next reads a token and its position.
func (p *jsonTree) next() (json.Token, *node, error) {
	from := int(p.dec.InputOffset())
	t, err := p.dec.Token()
	if err != nil {
		return nil, nil, err
	}
	for from < len(p.text) && strings.IndexByte(" \t\n,:", p.text[from]) >= 0 {
		from++
	}
	line, col := p.position(from)
	return t, &node{line: int32(line), col: int32(col)}, nil
}

func (p *jsonTree) value(depth int) (*node, error) {
	t, n, err := p.next()
	if err != nil {
		return nil, err
	}
	return n, p.fill(n, t, depth)
}

func (p *jsonTree) fill(n *node, t json.Token, depth int) error {
	switch t := t.(type) {
	case json.Delim:
		if depth >= depthMax {
			return errTooDeep
		}
		if t == '{' {
			return p.object(n, depth+1)
		}
		return p.array(n, depth+1)
	case string:
		n.text = t
	case json.Number:
		n.text, n.plain = t.String(), true
	case bool:
		n.text, n.plain = fmt.Sprint(t), true
	default:
		n.text, n.plain = "null", true
	}
	return nil
}

func (p *jsonTree) object(n *node, depth int) error {
	n.kind = mapNode
	for p.dec.More() {
		t, key, err := p.next()
		if err != nil {
			return err
		}
		key.text, _ = t.(string)
		val, err := p.value(depth)
		if err != nil {
			return err
		}
		n.keys, n.vals = append(n.keys, key), append(n.vals, val)
	}
	_, err := p.dec.Token()
	return err
}

func (p *jsonTree) array(n *node, depth int) error {
	n.kind = listNode
	for p.dec.More() {
		val, err := p.value(depth)
		if err != nil {
			return err
		}
		n.vals = append(n.vals, val)
	}
	_, err := p.dec.Token()
	return err
}
