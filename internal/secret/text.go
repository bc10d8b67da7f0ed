package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
)

// Text is a text of a configuration, or the name of a secret that holds it.
type Text struct {
	Plain  string
	Secret string
}

var textName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

// UnmarshalJSON reads "TEXT" or {"secret": "NAME"}.
func (t *Text) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &t.Plain) == nil {
		return nil
	}
	var ref struct {
		Secret string `json:"secret"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&ref); err != nil || !textName.MatchString(ref.Secret) {
		return errors.New("write a text, or {secret: NAME} with the name of a secret of the namespace")
	}
	t.Secret = ref.Secret
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (t Text) MarshalJSON() ([]byte, error) {
	if t.Secret != "" {
		return json.Marshal(map[string]string{"secret": t.Secret})
	}
	return json.Marshal(t.Plain)
}

// MarshalYAML writes the same content as MarshalJSON, in the YAML that people read.
func (t Text) MarshalYAML() (any, error) {
	if t.Secret != "" {
		return map[string]string{"secret": t.Secret}, nil
	}
	return t.Plain, nil
}
