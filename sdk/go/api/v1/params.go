package api

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Params is a JSON object. When Params is read from JSON, whole numbers become int64 if they fit, so that
// large numbers keep their digits. All other numbers become float64.
type Params map[string]any

// UnmarshalJSON reads an object or null.
func (p *Params) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return fmt.Errorf("params: %w", err)
	}
	for k, v := range m {
		m[k] = numbers(v)
	}
	*p = m
	return nil
}

func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // for a number beyond the range, f is ±Inf, which the check of the type refuses
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
