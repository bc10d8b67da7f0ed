package mask

import (
	"bytes"
	"encoding/json"
)

// nestMax bounds the depth to which HoldsJSON searches JSON texts within strings of JSON texts.
const nestMax = 3

// HoldsJSON reports whether a JSON text contains a form, either as it is written or after decoding. It
// searches keys and strings, and JSON texts within strings.
func (s *Set) HoldsJSON(text []byte) bool {
	return s != nil && (s.Holds(text) || s.decoded(text, nestMax))
}

// HoldsOutputs is HoldsJSON for the outputs that a task writes: a JSON text, or lines of key=value.
func (s *Set) HoldsOutputs(text []byte) bool {
	if s == nil {
		return false
	}
	if s.HoldsJSON(text) {
		return true
	}
	for line := range bytes.Lines(text) {
		_, value, _ := bytes.Cut(line, []byte("="))
		if s.decoded(line, nestMax) || s.decoded(value, nestMax) {
			return true
		}
	}
	return false
}

// decoded searches the keys and strings of a text. It stops where the text is not JSON.
func (s *Set) decoded(text []byte, deep int) bool {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		if is, ok := token.(string); ok && (s.Holds([]byte(is)) || deep > 1 && s.decoded([]byte(is), deep-1)) {
			return true
		}
	}
}
