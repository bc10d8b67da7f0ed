package connection

import (
	"encoding/json"
	"fmt"
)

// Resolved returns the connection as one JSON object: its type as the key type, and its fields, in which the
// value of secret replaces {secret: NAME}. The errors hold no value of a secret.
func (c *Config) Resolved(secret func(name string) (string, error)) (json.RawMessage, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode the connection: %w", err)
	}
	var all map[string]map[string]any
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("read the connection: %w", err)
	}
	fields, err := revealed(all[c.Type()], secret)
	if err != nil {
		return nil, err
	}
	out, _ := fields.(map[string]any)
	out["type"] = c.Type()
	return json.Marshal(out)
}

// revealed replaces every {secret: NAME} in a value of JSON.
func revealed(v any, secret func(name string) (string, error)) (any, error) {
	all, ok := v.(map[string]any)
	if !ok {
		return v, nil
	}
	if name, ok := all["secret"].(string); ok && len(all) == 1 {
		return secret(name)
	}
	for key, part := range all {
		value, err := revealed(part, secret)
		if err != nil {
			return nil, err
		}
		all[key] = value
	}
	return all, nil
}
