package sql

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// param is the value of a parameter: nil, a bool, an int64, a decimal or a string.
type param any

// decimal is the text of a number that does not fit an int64.
type decimal string

// paramsOf decodes the values of the parameters. It turns a list or a mapping into JSON text.
func paramsOf(given map[string]json.RawMessage) (map[string]param, error) {
	all := map[string]param{}
	for name, raw := range given {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			return nil, fmt.Errorf("the value of the parameter %s cannot be read", name)
		}
		switch v := v.(type) {
		case json.Number:
			if n, err := v.Int64(); err == nil {
				all[name] = n
			} else {
				all[name] = decimal(v.String())
			}
		case map[string]any, []any:
			text, err := json.Marshal(v)
			if err != nil {
				return nil, errors.New("the value of a parameter cannot be written")
			}
			all[name] = string(text)
		default: // texts, booleans and null stay as they are
			all[name] = v
		}
	}
	return all, nil
}

// float returns the value of a decimal for a database that has no decimals.
func (d decimal) float() float64 {
	f, _ := strconv.ParseFloat(string(d), 64)
	return f
}
