package sql

import (
	"bytes"
	"encoding/json"
)

// decode reads JSON. Integers stay exact.
func decode(raw []byte, into *[]any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	for i := range *into {
		(*into)[i] = numbers((*into)[i])
	}
	return nil
}

// numbers makes int64 and float64 of the numbers within a value.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	case map[string]any:
		for key := range v {
			v[key] = numbers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	}
	return v
}
