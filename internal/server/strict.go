package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	api "skein.dev/skein/sdk/api/v1"
)

// A proxy, a log and this server must understand a request in the same way. So the names in a body are
// case-sensitive.
var _ = func() bool {
	huma.ValidateStrictCasing = true
	return true
}()

// plainHeaders returns an error for headers that would change the meaning of a request.
func plainHeaders(r *http.Request, takesBody bool) *failure {
	if strings.ContainsFunc(r.Header.Get(api.HeaderIdempotencyKey), unicode.IsControl) {
		return fail(http.StatusUnprocessableEntity, api.ProblemInvalid, "%s: use text without tabs and other control characters",
			api.HeaderIdempotencyKey)
	}
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil && !strings.HasPrefix(r.URL.Path, hooksPath) {
		// Without this check, parameters that cannot be read would be ignored, even a filter.
		return fail(http.StatusBadRequest, api.ProblemInvalid, "the query cannot be read: %v; write a semicolon as %%3B, and a percent sign as %%25", err)
	}
	if r.ContentLength == 0 || r.Header.Get("Content-Type") != "" || !takesBody || strings.HasPrefix(r.URL.Path, hooksPath) {
		return nil
	}
	return fail(http.StatusUnsupportedMediaType, api.ProblemMediaType, "the body has no Content-Type; send it with Content-Type: application/json "+
		"(curl -H 'Content-Type: application/json' -d …), a workflow file with application/yaml")
}

// errAmbiguous is the error for JSON that readers may understand in different ways.
type errAmbiguous struct{ key string }

func (e *errAmbiguous) Error() string {
	return fmt.Sprintf("one object has the key %.100q twice; remove one of the two", e.key)
}

// errEncoding is the error for JSON that is not UTF-8. The decoder would silently replace bytes that it
// cannot read.
var errEncoding = errors.New("the body is not UTF-8; send JSON in UTF-8")

// errHalf is the error for text with one half of a surrogate pair. The decoder would replace it.
type errHalf struct {
	escape string
	at     int // the offset of the key in the body
}

func (e *errHalf) Error() string {
	return fmt.Sprintf("byte %d: %s is one half of a character; write the character itself, or both of its halves", e.at, e.escape)
}

// halfAt returns the index of the first \u escape in quoted text that is half of a surrogate pair without the
// other half. It returns -1 if there is none.
func halfAt(quoted []byte) int {
	for i := bytes.IndexByte(quoted, '\\'); i >= 0 && i+1 < len(quoted); i++ {
		if quoted[i] != '\\' {
			continue
		}
		first, ok := unitAt(quoted, i)
		if !ok {
			i++ // another escape
			continue
		}
		if utf16.IsSurrogate(first) {
			second, _ := unitAt(quoted, i+unitBytes)
			if utf16.DecodeRune(first, second) == unicode.ReplacementChar {
				return i
			}
			i += unitBytes
		}
		i += unitBytes - 1
	}
	return -1
}

const unitBytes = len(`\u0000`)

// unitAt reads the \u escape at an index.
func unitAt(b []byte, at int) (rune, bool) {
	if at+unitBytes > len(b) || b[at] != '\\' || b[at+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[at+2:at+unitBytes]), 16, 16)
	return rune(n), err == nil
}

// frame is an object or a list that is being read.
type frame struct {
	object, key bool // object says that this is an object and not a list; key says that the next text is a key
	few         []string
	many        map[string]bool // used if there are too many keys to compare each with all others
}

// fewKeys is the number of keys up to which the keys of an object are compared with each other.
const fewKeys = 16

// add records a key. It returns false if the key is there already.
func (f *frame) add(key string) bool {
	if f.many == nil && len(f.few) < fewKeys {
		for _, is := range f.few {
			if is == key {
				return false
			}
		}
		f.few = append(f.few, key)
		return true
	}
	if f.many == nil {
		f.many = make(map[string]bool, 2*fewKeys)
		for _, is := range f.few {
			f.many[is] = true
		}
	}
	if f.many[key] {
		return false
	}
	f.many[key] = true
	return true
}

// errCase is the error for a key that differs from a name only in its case. The library's decoder would use
// it for that name, but other readers would not.
type errCase struct{ key, name string }

func (e *errCase) Error() string {
	return fmt.Sprintf("the key %.100q is not known; write it as %q", e.key, e.name)
}

// namesOf returns the names of all fields of a type and of the types in it.
func namesOf(t reflect.Type) (names []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return namesOf(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			names = append(append(names, name), namesOf(t.Field(i).Type)...)
		}
	}
	return names
}

// unambiguous returns an error for JSON that is not UTF-8, has half of a surrogate pair, is nested too deep,
// has an object with the same key twice, or has a key that differs from one of names only in its case. For
// text that is not JSON, it leaves the error to the decoder, which names the position.
func unambiguous(b []byte, names []string) error {
	if !utf8.Valid(b) {
		return errEncoding
	}
	var open []frame
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			end := textEnd(b, i)
			if at := halfAt(b[i:end]); at >= 0 {
				return &errHalf{string(b[i+at : i+at+unitBytes]), i + at}
			}
			if n := len(open); n > 0 && open[n-1].key {
				open[n-1].key = false
				key := nameOf(b[i:end])
				if !open[n-1].add(key) {
					return &errAmbiguous{key}
				}
				if same := func(name string) bool { return strings.EqualFold(name, key) }; !slices.Contains(names, key) {
					if i := slices.IndexFunc(names, same); i >= 0 {
						return &errCase{key, names[i]}
					}
				}
			}
			i = end - 1
		case '{', '[':
			if len(open) == depthMax {
				return errDeep
			}
			open = append(open, frame{object: b[i] == '{', key: b[i] == '{'})
		case ',':
			if n := len(open); n > 0 {
				open[n-1].key = open[n-1].object
			}
		case '}', ']':
			if n := len(open); n > 0 {
				open = open[:n-1]
			}
		}
	}
	return nil
}

// textEnd returns the index after the string that begins at i.
func textEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// nameOf returns the name in a quoted key.
func nameOf(quoted []byte) string {
	if n := len(quoted); n >= 2 && quoted[n-1] == '"' && !strings.Contains(string(quoted), `\`) {
		return string(quoted[1 : n-1])
	}
	var key string
	_ = json.Unmarshal(quoted, &key) // the decoder reports the fault
	return key
}

// unmarshal reads the JSON of a request.
func unmarshal(b []byte, v any) error {
	if err := unambiguous(b, nil); err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
