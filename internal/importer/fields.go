package importer

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/workflow"
)

// Fields gives access to the keys of a mapping, each at most once. A key has the same meaning in camelCase
// and in snake_case.
type Fields struct {
	value *workflow.Value
	used  map[int]bool
}

// NewFields returns the fields of a value. A value that is not a mapping has no fields.
func NewFields(v *workflow.Value) *Fields {
	if v == nil {
		v = &workflow.Value{}
	}
	return &Fields{value: v, used: map[int]bool{}}
}

// Fold returns a key in the form in which keys are compared.
func Fold(key string) string { return strings.ToLower(strings.ReplaceAll(key, "_", "")) }

// Take returns the value of the first of these keys that is present and not null, and marks that key as used.
func (f *Fields) Take(names ...string) *workflow.Value {
	var found *workflow.Value
	for _, name := range names {
		for i, k := range f.value.Keys {
			if Fold(k.Text) != Fold(name) || f.used[i] {
				continue
			}
			if f.value.Vals[i].Null() {
				f.used[i] = true
			} else if found == nil {
				f.used[i] = true
				found = f.value.Vals[i]
			}
		}
	}
	return found
}

// Peek returns the same as Take, but marks no key as used.
func (f *Fields) Peek(names ...string) *workflow.Value { return f.Again().Take(names...) }

// Again returns a copy. Its keys are marked independently from now on.
func (f *Fields) Again() *Fields { return &Fields{value: f.value, used: maps.Clone(f.used)} }

// Rest calls drop for every key that is not marked as used. why is the reason from reasons, or a general one.
func (f *Fields) Rest(reasons map[string]string, drop func(key *workflow.Value, why string)) {
	for i, k := range f.value.Keys {
		if f.used[i] || f.value.Vals[i].Null() {
			continue
		}
		why, known := reasons[Fold(k.Text)]
		if !known {
			why = "the importer does not know this key; write its meaning by hand"
		}
		drop(k, Clip(k.Text, 60)+": "+why)
	}
}

// Int returns a value as a whole number.
func Int(v *workflow.Value) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(v.Str()), 10, 64)
	return n, err == nil
}

// Seconds returns a number of seconds as a duration for a workflow file.
func Seconds(n int64) Raw {
	n = min(max(n, 0), int64(99*365*24*time.Hour/time.Second))
	return Raw(workflow.Duration(time.Duration(n) * time.Second).String())
}

// IsTrue reports whether a value is true.
func IsTrue(v *workflow.Value) bool { return strings.EqualFold(v.Str(), "true") }

// Texts returns the texts of a value, which is one text or a list of texts.
func Texts(v *workflow.Value) []string {
	switch {
	case v.Null():
		return nil
	case v.Kind == workflow.ScalarValue:
		return []string{v.Text}
	}
	var all []string
	for _, e := range v.Vals {
		all = append(all, e.Str())
	}
	return all
}

// StateIn returns an expression that is true if a task ended in one of the states.
func StateIn(task string, states ...string) string {
	if len(states) == 1 {
		return TaskState(task) + ` == "` + states[0] + `"`
	}
	return TaskState(task) + ` in ["` + strings.Join(states, `", "`) + `"]`
}
