// Package output reads the outputs of tasks, which are an object of typed values.
package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// BytesMax bounds the outputs of an attempt.
const BytesMax = 64 << 10

// Parse reads lines of the form key=value, or one JSON object. A text that begins with a brace is an object,
// because no key can begin with a brace. The values of undeclared keys become strings: a value of an object
// that is not a string becomes its JSON text. Parse returns an object with sorted keys, or nil if there are
// no outputs.
func Parse(data []byte, types map[string]string) (json.RawMessage, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the outputs are not valid UTF-8 text")
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, errors.New("the outputs contain a NUL byte")
	}
	values := map[string]json.RawMessage{}
	var err error
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' {
		err = parseObject(trimmed, types, values)
	} else {
		err = parseLines(string(data), types, values)
	}
	if err != nil {
		return nil, err
	}
	if name := Missing(values, types); name != "" {
		return nil, fmt.Errorf(`output %q is declared but was not given: write "%s=…" as a line to $SKEIN_OUTPUT`, name, name)
	}
	if len(values) == 0 {
		return nil, nil
	}
	return Marshal(values)
}

// Missing returns the name of the first declared output that is missing. It returns "" if none is missing.
func Missing(values map[string]json.RawMessage, types map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(types)) {
		if _, ok := values[name]; !ok {
			return name
		}
	}
	return ""
}

// Object checks the result of a task function. The result must be a JSON object whose declared values have
// their types. Other values are not changed.
func Object(data []byte, types map[string]string) (json.RawMessage, error) {
	object := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("the outputs are not one JSON object: %w", err)
	}
	for key, raw := range object {
		kind, declared := types[key]
		switch {
		case !outputKey(key):
			return nil, fmt.Errorf("the outputs: %q is not a key (letters, digits and _, at most 64, not beginning with a digit)", excerpt(key))
		case HoldsNUL(raw):
			return nil, fmt.Errorf("the outputs: %q contains a NUL character", key)
		case !declared:
			kind = "json"
		}
		typed, err := fromJSON(raw, kind)
		if err != nil {
			return nil, fmt.Errorf("the outputs: %q must be %w, not %s", key, err, excerpt(string(raw)))
		}
		object[key] = typed
	}
	if name := Missing(object, types); name != "" {
		return nil, fmt.Errorf("output %q is declared but was not returned", name)
	}
	if len(object) == 0 {
		return nil, nil
	}
	out, err := Marshal(object)
	if err == nil && len(out) > BytesMax {
		err = fmt.Errorf("the outputs are larger than %d bytes: keep large results elsewhere and give their name", BytesMax)
	}
	return out, err
}

func parseLines(text string, types map[string]string, values map[string]json.RawMessage) error {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if strings.TrimSpace(line) == "" {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("line %d of the outputs is not key=value: %q", number, excerpt(line))
		}
		if !outputKey(key) {
			return fmt.Errorf("line %d of the outputs: %q is not a key (letters, digits and _, at most 64, not beginning with a digit)", number, excerpt(key))
		}
		typed, err := fromText(value, types[key])
		if err != nil {
			return fmt.Errorf("line %d of the outputs: %q must be %w, not %q", number, key, err, excerpt(value))
		}
		values[key] = typed
	}
	return nil
}

func parseObject(data []byte, types map[string]string, values map[string]json.RawMessage) error {
	object := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &object); err != nil {
		line := 1
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			line += bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n"))
		}
		return fmt.Errorf("line %d of the outputs: not one JSON object: %w", line, err)
	}
	for key, raw := range object {
		if !outputKey(key) {
			return fmt.Errorf("the outputs: %q is not a key (letters, digits and _, at most 64, not beginning with a digit)", excerpt(key))
		}
		if HoldsNUL(raw) {
			return fmt.Errorf("the outputs: %q contains a NUL character", key)
		}
		typed, err := fromJSON(raw, types[key])
		if err != nil {
			return fmt.Errorf("the outputs: %q must be %w, not %s", key, err, excerpt(string(raw)))
		}
		values[key] = typed
	}
	return nil
}

// Texts converts values that a person wrote. A declared output gets its declared type. An undeclared output
// becomes JSON if its text is valid JSON, and otherwise a string.
func Texts(given, types map[string]string) (map[string]json.RawMessage, error) {
	values := make(map[string]json.RawMessage, len(given))
	for _, key := range slices.Sorted(maps.Keys(given)) {
		value, kind := given[key], types[key]
		if kind == "" && json.Valid([]byte(value)) {
			kind = "json"
		}
		typed, err := fromText(value, kind)
		if err != nil {
			return nil, fmt.Errorf("the outputs: %q must be %w, not %q", excerpt(key), err, excerpt(value))
		}
		values[key] = typed
	}
	return values, nil
}

// The names of the required types in error texts. The sentence around a name states key and line.
var (
	errInt   = errors.New("an int (64 bits)")
	errFloat = errors.New("a float")
	errBool  = errors.New("true or false")
	errJSON  = errors.New("JSON")
	errText  = errors.New("a string")
)

// fromText converts the value of a line to its type.
func fromText(value, kind string) (json.RawMessage, error) {
	switch kind {
	case "int":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, errInt
		}
		return strconv.AppendInt(nil, n, 10), nil
	case "float":
		return parseFloat(value)
	case "bool":
		if value != "true" && value != "false" {
			return nil, errBool
		}
		return json.RawMessage(value), nil
	case "json":
		if !json.Valid([]byte(value)) || HoldsNUL([]byte(value)) {
			return nil, errJSON
		}
		return compact([]byte(value)), nil
	}
	return Marshal(value)
}

// fromJSON checks the type of a value of an object. It is strict: the text "5" is not the int 5.
func fromJSON(raw json.RawMessage, kind string) (json.RawMessage, error) {
	first := raw[0]
	number := first == '-' || first >= '0' && first <= '9'
	switch kind {
	case "int":
		if !number {
			return nil, errInt
		}
		return fromText(string(raw), kind)
	case "float":
		if !number {
			return nil, errFloat
		}
		return parseFloat(string(raw))
	case "bool":
		return fromText(string(raw), kind)
	case "json":
		return compact(raw), nil
	case "string":
		if first != '"' {
			return nil, errText
		}
		return compact(raw), nil
	}
	if first == '"' {
		return compact(raw), nil
	}
	return Marshal(string(compact(raw)))
}

// parseFloat refuses numbers that JSON cannot express: NaN, infinities, hexadecimal.
func parseFloat(text string) (json.RawMessage, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) || strings.ContainsAny(text, "xXpP_") {
		return nil, errFloat
	}
	out, err := Marshal(f)
	if err == nil && !bytes.ContainsAny(out, ".e") {
		out = append(out, ".0"...) // lets expressions distinguish a float from an int
	}
	return out, err
}

// Marshal is json.Marshal without the escapes for HTML, because outputs are compared and shown unchanged.
func Marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func compact(raw []byte) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		panic(fmt.Sprintf("worker: compacting what was valid JSON: %v", err))
	}
	return b.Bytes()
}

// HoldsNUL reports whether a JSON text contains \u0000, which no database accepts in a text.
func HoldsNUL(raw []byte) bool {
	const escape = `\u0000`
	for from := 0; ; {
		at := bytes.Index(raw[from:], []byte(escape))
		if at < 0 {
			return false
		}
		at += from
		slashes := 0 // number of backslashes before the escape; if it is odd, the escape itself is text
		for at-slashes > 0 && raw[at-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return true
		}
		from = at + 1
	}
}

// outputKey reports whether a text matches [A-Za-z_][A-Za-z0-9_]{0,63}.
func outputKey(s string) bool {
	if s == "" || len(s) > 64 || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// excerpt shortens a text of a task for use in an error text.
func excerpt(s string) string {
	const runesMax = 60
	if runes := []rune(s); len(runes) > runesMax {
		return string(runes[:runesMax]) + "…"
	}
	return s
}
