package server

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	api "skein.dev/skein/sdk/api/v1"
)

// Page holds the parameters of every list.
type Page struct {
	Cursor string `query:"cursor" maxLength:"1000" doc:"next of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

// list returns a page of a list. An empty next means that the page is the last one. Clients must treat
// cursors as opaque, so that their content may change.
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

// answerRoom is the part of answerBytesMax for the items of a list.
const answerRoom = answerBytesMax - 64<<10

// sizeOf returns the number of bytes of an item in an answer.
func sizeOf(item any) int {
	b, err := json.Marshal(item)
	if err != nil { // if the item cannot be encoded, the encoding of the answer reports the error
		return 0
	}
	return len(b) + len(",")
}

// fit cuts a page before the answer becomes too large, but keeps at least one item.
func fit[T any](items []T, size func(*T) int) (page []T, cut bool) {
	bytes := 0
	for i := range items {
		if bytes += size(&items[i]); bytes > answerRoom && i > 0 {
			return items[:i], true
		}
	}
	return items, false
}

// cut shortens a page that was read with one row more than its limit. more reports whether there may be a
// next page. There may be one if the store returned more rows than the limit, or pageMax rows, the largest
// number that it returns.
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

// afterInt reads a cursor that contains a number. Without a cursor it returns 0.
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

func badCursor() error { return invalid("cursor: send the next of an earlier answer of this list") }

// jsonOut is an answer that has only a body.
type jsonOut[T any] struct{ Body T }
