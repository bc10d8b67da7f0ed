package server

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	api "skein.dev/skein/api/v1"
)

// Page is what every list takes.
type Page struct {
	Cursor string `query:"cursor" maxLength:"1000" doc:"next of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

// list makes a page; next "" is the last one. Cursors are opaque, so that what they hold
// may change.
func list[T any](items []T, next string) *jsonOut[api.List[T]] {
	if items == nil {
		items = []T{}
	}
	l := api.List[T]{Items: items}
	if next != "" {
		c := base64.RawURLEncoding.EncodeToString([]byte(next))
		l.Next = &c
	}
	return &jsonOut[api.List[T]]{Body: l}
}

// answerRoom is the part of answerBytesMax that the items of a list have.
const answerRoom = answerBytesMax - 64<<10

// sizeOf is how many bytes an item takes in an answer.
func sizeOf(item any) int {
	b, err := json.Marshal(item)
	if err != nil { // the answer will say so
		return 0
	}
	return len(b) + len(",")
}

// fit ends a page where the answer would become too large, but not before its first item.
func fit[T any](items []T, size func(*T) int) (page []T, cut bool) {
	bytes := 0
	for i := range items {
		if bytes += size(&items[i]); bytes > answerRoom && i > 0 {
			return items[:i], true
		}
	}
	return items, false
}

// cut takes a page that was read with one row too many to its limit; more: there is a next
// one, or may be, because a store gives no more rows than this.
func cut[T any](rows []T, limit int) (page []T, more bool) {
	if len(rows) > limit {
		return rows[:limit], true
	}
	return rows, len(rows) == pageMax
}

// after reads the cursor.
func (p *Page) after() (string, error) {
	b, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err != nil {
		return "", badCursor()
	}
	return string(b), nil
}

// afterInt reads a cursor that holds a number; absent it is 0.
func (p *Page) afterInt() (int64, error) {
	text, err := p.after()
	if err != nil || text == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, badCursor()
	}
	return n, nil
}

func badCursor() error { return invalid("cursor: give the next of an earlier answer of this list") }

// jsonOut is an answer with nothing but a body.
type jsonOut[T any] struct{ Body T }
