package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// paramsBytesMax bounds the parameters of a run.
const paramsBytesMax = 256 << 10

// ValueError is the fault of one parameter.
type ValueError struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// ValueErrors is a list of all faults of the given values.
type ValueErrors []ValueError

// Error returns one line for each value.
func (es ValueErrors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Message
		if e.Hint != "" {
			lines[i] += " (" + e.Hint + ")"
		}
	}
	return strings.Join(lines, "\n")
}

// CheckParams returns the parameters of a run as a JSON object. It checks types, converts texts as the
// command line gives them, and fills in defaults. In expressions of defaults, trigger.time is at. The error
// is a ValueErrors with every fault.
func (w *Workflow) CheckParams(given map[string]any, at time.Time) (json.RawMessage, error) {
	var errs ValueErrors
	fail := func(name, message, hint string) {
		errs = append(errs, ValueError{Name: name, Message: message, Hint: hint})
	}
	names := func(yield func(string) bool) {
		for i := range w.Params {
			if !yield(w.Params[i].Name) {
				return
			}
		}
	}
	for _, name := range sortedKeys(given) {
		if !slices.Contains(slices.Collect(names), name) {
			hint := meant(name, names, "parameters")
			if len(w.Params) == 0 {
				hint = "this workflow has no parameters"
			}
			fail(name, "there is no parameter "+quoteShort(name), hint)
		}
	}
	values := make([]member, 0, len(w.Params))
	for i := range w.Params {
		p := &w.Params[i]
		raw, err := w.param(p, given, at)
		if err != nil {
			fail(p.Name, "parameter "+p.Name+" "+err.Error(), p.Description)
			continue
		}
		values = append(values, member{p.Name, raw})
	}
	out := writeObject(values)
	if len(out) > paramsBytesMax {
		fail("", fmt.Sprintf("the parameters are larger than %s together", sizeText(paramsBytesMax)), "put data into a file and give its path")
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return out, nil
}

// param returns the value of one parameter.
func (w *Workflow) param(p *Param, given map[string]any, at time.Time) (json.RawMessage, error) {
	if v, ok := given[p.Name]; ok && (v != nil || p.Type == JSON) {
		return p.convert(v, true)
	}
	switch {
	case p.Required():
		return nil, fmt.Errorf("is required: %s", p.words())
	case p.Default == nil:
		return json.RawMessage("null"), nil
	}
	text, ok := jsonString(p.Default)
	if !ok || !hasTemplate(text) {
		return p.Default, nil
	}
	t, err := w.exprs.get(text, inDefault)
	if err != nil {
		return nil, fmt.Errorf("has a default that cannot be evaluated: %w", err)
	}
	from := values{at: at}
	v, err := t.value(from.lookup)
	if err != nil {
		return nil, fmt.Errorf("has a default that cannot be evaluated: %w", err)
	}
	return p.convert(v, false)
}

// SealedPrefix is the beginning of a sealed value of a parameter of type secret. Such a value is sealed
// before it reaches this package.
const SealedPrefix = "sealed:1:"

// errSecretGiven is the error for a value of type secret that was not sealed before it reached this package.
// Triggers, backfills, calls and transactions of other programs cannot give a sealed value: if they have a
// sealed text, it is a copy.
var errSecretGiven = errors.New("is a secret: it is given when a person or a program starts a run, and its value is a text; here it would be stored or shown")

// words returns the type and format for people.
func (p *Param) words() string {
	switch p.Format {
	case "date":
		return "a date such as 2006-01-02"
	case "date-time":
		return "a date and time such as 2006-01-02T15:04:05Z"
	case "duration":
		return "a duration such as 1h30m"
	}
	switch p.Type {
	case Int:
		return "a whole number"
	case Float:
		return "a number"
	case Bool:
		return "true or false"
	case JSON:
		return "a JSON value"
	case Secret:
		return "a secret text"
	}
	return "a text"
}

// convert returns the JSON of a value of the parameter's type. If loose is set, a text is also accepted for
// other types, because the command line gives every value as a text.
func (p *Param) convert(v any, loose bool) (json.RawMessage, error) {
	if p.Type == Secret { // no message may contain the value
		text, _ := v.(string)
		if !strings.HasPrefix(text, SealedPrefix) {
			return nil, errSecretGiven
		}
		return marshal(text)
	}
	raw, ok := convert(p.Type, v, loose)
	if !ok || !p.formatted(raw) {
		return nil, fmt.Errorf("must be %s, not %s", p.words(), shown(v))
	}
	if len(p.Enum) > 0 && !slices.ContainsFunc(p.Enum, func(e json.RawMessage) bool { return bytes.Equal(e, raw) }) {
		allowed := make([]string, len(p.Enum))
		for i, e := range p.Enum {
			allowed[i] = string(e)
		}
		return nil, fmt.Errorf("must be one of %s, not %s", strings.Join(allowed, ", "), shown(v))
	}
	return raw, nil
}

func (p *Param) formatted(raw json.RawMessage) bool {
	text, _ := jsonString(raw)
	var err error
	switch p.Format {
	case "date":
		_, err = time.Parse(time.DateOnly, text)
	case "date-time":
		_, err = time.Parse(time.RFC3339, text)
	case "duration":
		_, err = ParseDuration(text)
	}
	return err == nil
}

func shown(v any) string {
	if s, ok := v.(string); ok {
		return quoteShort(s)
	}
	b, err := marshal(v)
	if err != nil {
		return fmt.Sprintf("a %T", v)
	}
	if len(b) > 60 {
		return string(bytes.ToValidUTF8(b[:60], nil)) + "…"
	}
	return string(b)
}

// convert returns v as JSON of type t. It writes floats with a point or an exponent, so that they are read
// back as floats.
func convert(t Type, v any, loose bool) (json.RawMessage, bool) {
	text, isText := v.(string)
	if t == String || t == "" {
		if !isText || strings.ContainsRune(text, 0) {
			return nil, false
		}
		raw, err := marshal(strings.ToValidUTF8(text, "\uFFFD"))
		return raw, err == nil
	}
	if t == JSON {
		return convertJSON(v, loose)
	}
	if isText {
		if !loose {
			return nil, false
		}
		v = json.Number(strings.TrimSpace(text))
	}
	if b, ok := v.(bool); ok {
		return json.RawMessage(strconv.FormatBool(b)), t == Bool
	}
	number, ok := numberText(v)
	if !ok {
		return nil, false
	}
	switch t {
	case Bool:
		return json.RawMessage(number), isText && (number == "true" || number == "false")
	case Int:
		i, err := strconv.ParseInt(number, 10, 64)
		if err != nil { // 3.0 and 1e3 are whole numbers, too
			f, err := strconv.ParseFloat(number, 64)
			if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
				return nil, false
			}
			i = int64(f)
		}
		return json.RawMessage(strconv.FormatInt(i, 10)), true
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, false
	}
	return json.RawMessage(floatText(f)), true
}

// numberText returns a number as text, whatever Go type it has.
func numberText(v any) (string, bool) {
	switch v := v.(type) {
	case json.Number:
		return v.String(), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	case float32, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return fmt.Sprint(v), true
	}
	return "", false
}

// exactJSON is a JSON value that needs no conversion.
type exactJSON struct{ json.RawMessage }

// convertJSON accepts any value. If v is a text with valid JSON, the value is that JSON. So the command line
// can give any value.
func convertJSON(v any, loose bool) (json.RawMessage, bool) {
	if exact, ok := v.(exactJSON); ok {
		v, loose = exact.RawMessage, false
	}
	if text, ok := v.(string); ok && loose && json.Valid([]byte(text)) {
		var b bytes.Buffer
		if json.Compact(&b, []byte(text)) == nil && jsonDepth(b.Bytes()) <= depthMax {
			return b.Bytes(), true
		}
		return nil, false
	}
	raw, err := marshal(v)
	return raw, err == nil && jsonDepth(raw) <= depthMax && !bytes.Contains(raw, []byte(`\u0000`))
}

// jsonDepth returns the depth of nesting of valid JSON.
func jsonDepth(raw []byte) int {
	depth, deepest := 0, 0
	quoted := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// member is one member of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// writeObject writes a JSON object with its members in the given order.
func writeObject(members []member) json.RawMessage {
	b := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := marshal(m.name)
		if err != nil {
			panic(fmt.Sprintf("workflow: a text is not JSON: %v", err)) // a text can always be encoded
		}
		b = append(append(append(b, name...), ':'), m.value...)
	}
	return append(b, '}')
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
