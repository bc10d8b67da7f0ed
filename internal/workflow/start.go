package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/cel-go/common/types"
)

// StartParams computes the parameters of a run that a trigger or a backfill starts. given, a JSON object or
// nil, overrides the defaults. The texts of both may contain ${{ }}. In these expressions, trigger.time is
// at. In those of given, trigger.event is event, a JSON value or nil. The error is a ValueErrors that names
// each faulty parameter.
func (w *Workflow) StartParams(given json.RawMessage, at time.Time, event json.RawMessage) (json.RawMessage, error) {
	return w.complete(given, &values{at: at, event: event}, w.givenValue)
}

// LiteralParams is like StartParams, for values that are data: it evaluates no expressions in their texts.
func (w *Workflow) LiteralParams(given json.RawMessage, at time.Time, _ json.RawMessage) (json.RawMessage, error) {
	return w.complete(given, &values{at: at}, func(p *Param, raw json.RawMessage, _ *values) (any, error) { return literal(p, raw) })
}

func (w *Workflow) complete(given json.RawMessage, from *values, value func(*Param, json.RawMessage, *values) (any, error)) (json.RawMessage, error) {
	texts, err := members(given)
	if err != nil {
		return nil, fmt.Errorf("the parameters given are not a JSON object: %w", err)
	}
	var errs ValueErrors
	known := make(map[string]any, len(texts))
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		i := slices.IndexFunc(w.Params, func(p Param) bool { return p.Name == name })
		if i < 0 {
			known[name] = nil // CheckParams will report that there is no such parameter
			continue
		}
		p := &w.Params[i]
		v, err := value(p, texts[name], from)
		if err != nil {
			errs = append(errs, ValueError{Name: name, Message: "parameter " + name + " " + err.Error(), Hint: p.Description})
			continue
		}
		known[name] = v
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return w.CheckParams(known, from.at)
}

// givenValue returns a value of a trigger in the form for CheckParams.
func (w *Workflow) givenValue(p *Param, raw json.RawMessage, from *values) (any, error) {
	return w.givenTo(p, raw, inTrigger, from)
}

// literal returns a value in the form for CheckParams, without evaluating expressions in it.
func literal(p *Param, raw json.RawMessage) (any, error) {
	if p.Type == Secret && string(raw) != "null" {
		return nil, errSecretGiven
	}
	if p.Type == JSON { // this keeps a text as a text; CheckParams would read it as JSON
		return exactJSON{raw}, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

// NeedsInstant reports whether the parameters of a run depend on its instant or its trigger. They do if ${{
// }} is in a text of given, or in a default that given does not replace. Otherwise StartParams returns the
// same parameters at any time.
func (w *Workflow) NeedsInstant(given json.RawMessage) bool {
	texts, err := members(given)
	if err != nil {
		return true // StartParams will report the fault
	}
	depends := func(raw json.RawMessage) bool {
		text, ok := jsonString(raw)
		return ok && hasTemplate(text)
	}
	for i := range w.Params {
		p := &w.Params[i]
		raw, ok := texts[p.Name]
		if !ok || string(raw) == "null" && p.Type != JSON {
			raw = p.Default
		}
		if depends(raw) {
			return true
		}
	}
	return false
}

// Passes reports whether the filter of a webhook accepts a call: a JSON object of body, headers and query. If
// the filter cannot be evaluated for this call, it returns an error.
func (h *Webhook) Passes(event json.RawMessage) (bool, error) {
	passes, err := compileFilter(h.Filter, inFilter)
	if err != nil {
		return false, err
	}
	return passes(event)
}

// compileFilter compiles a condition over event. An empty text accepts every event.
func compileFilter(text string, in scope) (passes func(event json.RawMessage) (bool, error), err error) {
	if text == "" {
		return func(json.RawMessage) (bool, error) { return true, nil }, nil
	}
	x, faults := (*declarations)(nil).compile(text, in)
	if len(faults) > 0 {
		return nil, fmt.Errorf("filter %s: %w", quoteShort(text), faults[0])
	}
	return func(event json.RawMessage) (bool, error) {
		from := values{event: event}
		got, err := x.run(from.lookup)
		if err != nil {
			return false, fmt.Errorf("filter %s: %w", quoteShort(text), err)
		}
		holds, ok := got.(types.Bool)
		if !ok {
			return false, fmt.Errorf("filter %s is neither true nor false, but a %s", quoteShort(text), typeWord(got.Type().TypeName()))
		}
		return bool(holds), nil
	}, nil
}
