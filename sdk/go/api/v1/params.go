package api

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Params is a JSON object. Read from JSON, whole numbers are int64 as long as they fit, so
// that large ones keep their digits; all others are float64.
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
		f, _ := v.Float64() // beyond its range the check of the type refuses ±Inf
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
