package workflow

import (
	"encoding/json"
	"maps"
	"slices"

	celref "github.com/google/cel-go/common/types/ref"
)

// SecretShown is shown in place of the value of a parameter of type secret.
const SecretShown = "***"

// MaskParams returns the parameters of a run, a JSON object or nil, with SecretShown in place of every value
// of type secret, sealed or not. If there is no such value, it returns the parameters unchanged.
func (w *Workflow) MaskParams(params json.RawMessage) json.RawMessage {
	if !slices.ContainsFunc(w.Params, func(p Param) bool { return p.Type == Secret }) || len(params) == 0 {
		return params
	}
	all, err := members(params)
	if err != nil { // any part of the text may be the secret value
		return json.RawMessage("{}")
	}
	found := false
	for name, raw := range all {
		if string(raw) != "null" && w.isSecret(name) {
			all[name], found = json.RawMessage(`"`+SecretShown+`"`), true
		}
	}
	if !found {
		return params
	}
	masked := make([]member, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		masked = append(masked, member{name, all[name]})
	}
	return writeObject(masked)
}

// allParams returns the value of params as a whole. Parse refuses a file that reads params as a whole and has
// a parameter of type secret. But stored versions may come from an earlier version of Parse, which accepted
// such files.
func (v *values) allParams() celref.Val {
	params := orEmpty(v.params)
	if v.masked != nil {
		params = v.masked(params)
	}
	return celValue(params)
}
