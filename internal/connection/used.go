package connection

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"skein.dev/skein/internal/secret"
)

// Used returns a connection as a process that uses it gets it: the keys of its type, the key type, and
// the values of the secrets in place of their names. It is for no log and no row.
func (c *Config) Used(value func(name string) (string, error)) (json.RawMessage, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var all map[string]map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		return nil, err
	}
	is := all[c.Type()]
	if is == nil {
		return nil, errors.New("the connection has no type that this node knows")
	}
	if err := reveal(is, value); err != nil {
		return nil, err
	}
	is["type"] = c.Type()
	return json.Marshal(is)
}

// reveal replaces {"secret": NAME} by the value of the secret, in the keys and in the headers.
func reveal(keys map[string]any, value func(name string) (string, error)) error {
	for key, v := range keys {
		of, ok := v.(map[string]any)
		if !ok {
			continue
		}
		name, ok := of["secret"].(string)
		if !ok || key == "headers" { // a header may have the name secret
			if err := reveal(of, value); err != nil {
				return err
			}
			continue
		}
		is, err := value(name)
		if err != nil {
			return err
		}
		keys[key] = is
	}
	return nil
}

// ParseUsed reads what Used wrote. The texts that were secrets are plain.
func ParseUsed(data []byte) (Config, error) {
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

// Secrets are the plain texts of a connection that may be secrets.
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
	}
	return all
}
