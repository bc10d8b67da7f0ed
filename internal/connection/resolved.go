package connection

import (
	"encoding/json"
	"errors"
	"fmt"

	"skein.dev/skein/internal/secret"
)

// Resolved returns the connection as one JSON object: its type as the key type, and its fields, in
// which the result of value replaces {secret: NAME}. The errors hold no value of a secret.
func (c *Config) Resolved(value func(name string) (string, error)) (json.RawMessage, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode the connection: %w", err)
	}
	var all map[string]map[string]any
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("read the connection: %w", err)
	}
	fields, err := revealed(all[c.Type()], value)
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

// ParseResolved reads what Resolved wrote. The texts that were secrets are plain.
func ParseResolved(data []byte) (Config, error) {
	var c Config
	var keys map[string]json.RawMessage
	var name string
	if json.Unmarshal(data, &keys) != nil || json.Unmarshal(keys["type"], &name) != nil {
		return c, errors.New("the connection cannot be read")
	}
	delete(keys, "type")
	raw, err := json.Marshal(map[string]any{name: keys})
	if err != nil {
		return c, errors.New("the connection cannot be read")
	}
	if json.Unmarshal(raw, &c) != nil || c.Type() == "" { // the error could show a value
		return c, fmt.Errorf("this program knows no connection of the type %.40q", name)
	}
	return c, nil
}

// Secrets returns the plain texts of a connection that may be secrets.
func (c *Config) Secrets() []string {
	var all []string
	add := func(texts ...*secret.Text) {
		for _, t := range texts {
			if t != nil && t.Plain != "" {
				all = append(all, t.Plain)
			}
		}
	}
	switch {
	case c.HTTP != nil:
		add(c.HTTP.Password, c.HTTP.Token)
		for _, t := range c.HTTP.Headers {
			add(&t)
		}
	case c.Postgres != nil:
		add(c.Postgres.Password)
	case c.MySQL != nil:
		add(c.MySQL.Password)
	case c.ClickHouse != nil:
		add(c.ClickHouse.Password)
	case c.SSH != nil:
		add(c.SSH.Key)
	default:
		for _, one := range c.set() {
			if b, ok := one.is.(*brokers); ok {
				add(b.is.Secrets()...)
			}
		}
	}
	return all
}
