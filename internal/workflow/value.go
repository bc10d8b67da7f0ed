package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	celref "github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// celValue makes a CEL value of JSON. A number is an int if it is written as one, so a float must be written
// as 3.0. CheckParams and the worker write floats in this form.
func celValue(raw json.RawMessage) celref.Val {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return types.NewErr("a stored value is not JSON: %v", err)
	}
	return types.DefaultTypeAdapter.NativeToValue(numbers(v))
}

// numbers replaces json.Number by int64 or float64, at all depths.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			if i, err := v.Int64(); err == nil {
				return i
			}
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}

// members splits a JSON object into its values. An empty text gives nil.
func members(raw json.RawMessage) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if len(raw) == 0 {
		return m, nil
	}
	return m, json.Unmarshal(raw, &m)
}

// render returns a result as a text: strings as they are, ints without an exponent, lists and maps as JSON,
// and null as an empty text.
func render(v celref.Val) (string, error) {
	var text string
	switch v := v.(type) {
	case types.String:
		text = string(v)
	case types.Null:
	default:
		n, err := native(v, 0)
		if err != nil {
			return "", err
		}
		switch n := n.(type) {
		case json.Number:
			text = n.String()
		case string: // an instant, a duration
			text = n
		default:
			b, err := marshal(n)
			if err != nil {
				return "", err
			}
			text = string(b)
		}
	}
	if len(text) > resultBytesMax {
		return "", fmt.Errorf("the result is larger than %s", sizeText(resultBytesMax))
	}
	if strings.ContainsRune(text, 0) {
		return "", fmt.Errorf("the result holds a NUL character")
	}
	return text, nil
}

// marshal is json.Marshal without the escapes for HTML.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// unescaped removes the escapes for HTML that json.Marshal adds in raw values. So a stored value is byte for
// byte the value that was parsed.
func unescaped(raw json.RawMessage) json.RawMessage {
	if !bytes.Contains(raw, []byte(`\u`)) {
		return raw
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return raw
	}
	out, err := marshal(v)
	if err != nil {
		return raw
	}
	return out
}

func (w *Workflow) unescape() {
	for i := range w.Params {
		p := &w.Params[i]
		p.Default = unescaped(p.Default)
		for j := range p.Enum {
			p.Enum[j] = unescaped(p.Enum[j])
		}
	}
	for i := range w.Tasks {
		for j := range w.Tasks[i].With {
			g := &w.Tasks[i].With[j]
			g.Value = unescaped(g.Value)
		}
	}
	for i := range w.Triggers {
		w.Triggers[i].Params = unescaped(w.Triggers[i].Params)
	}
}

// native converts a CEL value to a value for encoding/json, with numbers as json.Number.
func native(v celref.Val, depth int) (any, error) {
	if depth > depthMax {
		return nil, fmt.Errorf("the result is nested too deep")
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.String:
		return string(v), nil
	case types.Int:
		return json.Number(strconv.FormatInt(int64(v), 10)), nil
	case types.Uint:
		return json.Number(strconv.FormatUint(uint64(v), 10)), nil
	case types.Double:
		return floatNumber(float64(v))
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return v.Duration.String(), nil
	case traits.Lister:
		list := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			item, err := native(it.Next(), depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		return list, nil
	case traits.Mapper:
		m := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			item, err := native(v.Get(k), depth+1)
			if err != nil {
				return nil, err
			}
			m[fmt.Sprint(k.Value())] = item
		}
		return m, nil
	}
	return nil, fmt.Errorf("a result of type %s cannot be written as text", v.Type().TypeName())
}

func floatNumber(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("the result %v is not a number", f)
	}
	if a := math.Abs(f); a == 0 || a >= 1e-6 && a < 1e21 {
		return json.Number(strconv.FormatFloat(f, 'f', -1, 64)), nil
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64)), nil
}
