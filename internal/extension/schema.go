package extension

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Schema is a subset of JSON Schema (2020-12). It has the keywords that its fields name. Any other keyword is
// an error, so no rule of a manifest is silently ignored.
type Schema struct {
	Type        types              `json:"type,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Default     json.RawMessage    `json:"default,omitempty"` // shown to people, but not filled in
	Examples    json.RawMessage    `json:"examples,omitempty"`
	Enum        []json.RawMessage  `json:"enum,omitempty"`
	Const       json.RawMessage    `json:"const,omitempty"`
	Properties  map[string]*Schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	// Additional is the schema for properties that Properties does not name. The booleans true and false are
	// schemas, too.
	Additional *Schema     `json:"additionalProperties,omitempty"`
	Items      *Schema     `json:"items,omitempty"`
	MinItems   int         `json:"minItems,omitempty"`
	MaxItems   *int        `json:"maxItems,omitempty"`
	MinLength  int         `json:"minLength,omitempty"` // in characters
	MaxLength  *int        `json:"maxLength,omitempty"`
	Pattern    string      `json:"pattern,omitempty"` // in Go's syntax; may match anywhere in the text
	Minimum    json.Number `json:"minimum,omitempty"`
	Maximum    json.Number `json:"maximum,omitempty"`
	AnyOf      []*Schema   `json:"anyOf,omitempty"`

	never   bool // this is the schema false
	pattern *regexp.Regexp
}

// types holds the types of a schema. In JSON it is one text or a list of texts.
type types []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *types) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*t = types{one}
	} else if err := json.Unmarshal(raw, (*[]string)(t)); err != nil {
		return errors.New("type is neither a text nor a list of texts")
	}
	for _, name := range *t {
		if !slices.Contains([]string{"object", "array", "string", "number", "integer", "boolean", "null"}, name) {
			return fmt.Errorf("type: %.40q is not a type of JSON Schema", name)
		}
	}
	return nil
}

// UnmarshalJSON implements json.Unmarshaler. It returns an error for unknown keywords.
func (s *Schema) UnmarshalJSON(raw []byte) error {
	var all bool
	if json.Unmarshal(raw, &all) == nil {
		*s = Schema{never: !all}
		return nil
	}
	type plain Schema
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode((*plain)(s)); err != nil {
		return fmt.Errorf("schema: %s: this part of JSON Schema is not supported", strings.TrimPrefix(err.Error(), "json: "))
	}
	if s.Pattern != "" {
		var err error
		if s.pattern, err = regexp.Compile(s.Pattern); err != nil {
			return fmt.Errorf("schema: pattern %.100q: %w", s.Pattern, err)
		}
	}
	return nil
}

// Later reports whether an expression will produce a text later. Such a text is not checked before the task
// starts.
type Later func(text string) bool

// Check compares a JSON value with the schema. The error names a place in the value, and at names the value
// itself. The error contains no part of the value, because the value may be secret. open may be nil.
func (s *Schema) Check(raw json.RawMessage, at string, open Later) error {
	if s == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("%s is not JSON", at)
	}
	return s.check(v, at, open)
}

func (s *Schema) check(v any, at string, open Later) error {
	if s == nil { // the schema in the manifest is null
		return nil
	}
	text, isText := v.(string)
	switch {
	case isText && open != nil && open(text):
		return nil
	case s.never:
		return fmt.Errorf("%s is not allowed", at)
	case len(s.Type) > 0 && !slices.ContainsFunc(s.Type, func(name string) bool { return is(v, name) }):
		return fmt.Errorf("%s must be of type %s", at, strings.Join(s.Type, " or "))
	case len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(one json.RawMessage) bool { return equal(one, v) }):
		return fmt.Errorf("%s must be one of %s", at, listed(s.Enum))
	case len(s.Const) > 0 && !equal(s.Const, v):
		return fmt.Errorf("%s must be %s", at, s.Const)
	}
	if err := s.checkForms(v, at, open); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		return s.checkText(v, at)
	case json.Number:
		return s.checkNumber(v, at)
	case []any:
		return s.checkList(v, at, open)
	case map[string]any:
		return s.checkObject(v, at, open)
	}
	return nil
}

// checkForms compares a value with the schemas of anyOf. It compares with each only once, because anyOf may
// be nested.
func (s *Schema) checkForms(v any, at string, open Later) error {
	var first error
	for _, one := range s.AnyOf {
		err := one.check(v, at, open)
		if err == nil {
			return nil
		}
		if first == nil {
			first = fmt.Errorf("%s has none of the forms that anyOf allows: %w", at, err)
		}
	}
	return first
}

// is reports whether a value has the named type of JSON Schema.
func is(v any, name string) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case json.Number:
		return name == "number" || name == "integer" && whole(v)
	case []any:
		return name == "array"
	}
	return name == "object"
}

// exponentMax bounds the exponents of the numbers that can be compared.
const exponentMax = 400

// rational returns the exact value of a number. It returns nil if the number is too large to compare.
func rational(n json.Number) *big.Rat {
	text := strings.ToLower(n.String())
	if _, exponent, ok := strings.Cut(text, "e"); ok {
		if e, err := strconv.Atoi(exponent); err != nil || e > exponentMax || e < -exponentMax {
			return nil
		}
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	return r
}

func whole(n json.Number) bool {
	r := rational(n)
	return r != nil && r.IsInt()
}

func equal(raw json.RawMessage, v any) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var want any
	if d.Decode(&want) != nil {
		return false
	}
	if a, ok := want.(json.Number); ok {
		b, ok := v.(json.Number)
		x, y := rational(a), rational(b)
		return ok && x != nil && y != nil && x.Cmp(y) == 0
	}
	one, err := json.Marshal(want)
	two, other := json.Marshal(v)
	return err == nil && other == nil && bytes.Equal(one, two)
}

func listed(all []json.RawMessage) string {
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = string(one)
	}
	return strings.Join(words, ", ")
}

func (s *Schema) checkText(text, at string) error {
	switch n := utf8.RuneCountInString(text); {
	case n < s.MinLength:
		return fmt.Errorf("%s must have at least %d characters", at, s.MinLength)
	case s.MaxLength != nil && n > *s.MaxLength:
		return fmt.Errorf("%s may have at most %d characters", at, *s.MaxLength)
	case s.pattern != nil && !s.pattern.MatchString(text):
		return fmt.Errorf("%s must match %s", at, s.Pattern)
	}
	return nil
}

func (s *Schema) checkNumber(n json.Number, at string) error {
	r := rational(n)
	if r == nil {
		return fmt.Errorf("%s is too large a number", at)
	}
	if least := rational(s.Minimum); s.Minimum != "" && least != nil && r.Cmp(least) < 0 {
		return fmt.Errorf("%s must be at least %s", at, s.Minimum)
	}
	if most := rational(s.Maximum); s.Maximum != "" && most != nil && r.Cmp(most) > 0 {
		return fmt.Errorf("%s must be at most %s", at, s.Maximum)
	}
	return nil
}

func (s *Schema) checkList(list []any, at string, open Later) error {
	switch {
	case len(list) < s.MinItems:
		return fmt.Errorf("%s must have at least %d items", at, s.MinItems)
	case s.MaxItems != nil && len(list) > *s.MaxItems:
		return fmt.Errorf("%s may have at most %d items", at, *s.MaxItems)
	case s.Items == nil:
		return nil
	}
	for i, v := range list {
		if err := s.Items.check(v, at+"["+strconv.Itoa(i)+"]", open); err != nil {
			return err
		}
	}
	return nil
}

func (s *Schema) checkObject(all map[string]any, at string, open Later) error {
	for _, name := range s.Required {
		if _, ok := all[name]; !ok {
			return fmt.Errorf("%s.%s is missing", at, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		of := s.Properties[name]
		if of == nil {
			of = s.Additional
		}
		if of != nil && of.never {
			return fmt.Errorf("%s.%s is not known: the known keys are %s", at, name, strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", "))
		}
		if of != nil {
			if err := of.check(all[name], at+"."+name, open); err != nil {
				return err
			}
		}
	}
	return nil
}
