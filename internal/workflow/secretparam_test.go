package workflow

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestSecretParams: a parameter of type secret can be read where a secret can, and nowhere else. A value that
// is not sealed is refused, and no message shows it.
func TestSecretParams(t *testing.T) {
	const head = "name: w\nparams: {s: secret, o: {type: secret, required: false}, d: {default: a}}\n"
	for text, want := range map[string]string{
		"tasks: {a: {run: 'true', env: {X: '${{ params.s }}'}}}":                                                             "",
		"env: {X: '${{ params.s }}'}\ntasks: {a: {run: 'true'}}":                                                             "",
		"tasks: {a: {http: {url: 'https://x.example', headers: {Authorization: 'Bearer ${{ params.s }}'}}}}":                 "",
		"tasks: {a: {run: 'true', dir: '${{ params.s }}'}}":                                                                  "cannot be read here",
		"tasks: {a: {run: 'true', if: \"params.s == 'x'\"}}":                                                                 "cannot be read here",
		"tasks: {a: {http: {url: 'https://x.example/${{ params.s }}'}}}":                                                     "cannot be read here",
		"tasks: {a: {workflow: other, with: {x: '${{ params.s }}'}}}":                                                        "cannot be read here",
		"locks: ['${{ params.s }}']\ntasks: {a: {run: 'true'}}":                                                              "cannot be read here",
		"triggers: [{name: t, every: 1h, params: {s: hunter2-hunter2}}]\ntasks: {a: {run: 'true'}}":                          "is a secret",
		"triggers: [{name: t, webhook: {secret: x}, params: {s: '${{ trigger.event.body.x }}'}}]\ntasks: {a: {run: 'true'}}": "is a secret, and a trigger cannot give it",
		"tasks: {a: {run: 'true', env: {X: '${{ params }}'}}}":                                                               "parameter o is a secret",
		"tasks: {a: {run: 'true', if: \"size(params) > 1\"}}":                                                                "parameter o is a secret",
		"tasks: {a: {run: 'true', env: {X: '${{ secrets.__params }}'}}}":                                                     "no secret",
	} {
		_, errs := Parse([]byte(head+text), Options{File: "w.yaml"})
		got := ""
		for _, e := range errs {
			got += e.Message + "; "
		}
		if (want == "") != (got == "") || !strings.Contains(got, want) || strings.Contains(got, "hunter2") {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{"{type: secret, default: hunter2-hunter2}": "params.s.default", "{type: secret, enum: [hunter2-hunter2]}": "params.s.enum"} {
		_, errs := Parse([]byte("name: w\nparams: {s: "+text+"}\ntasks: {a: {run: 'true'}}"), Options{File: "w.yaml"})
		if len(errs) == 0 || errs[0].Key != want {
			t.Errorf("%s: %v", text, errs)
		}
	}
	ws, errs := Parse([]byte(head+"tasks: {a: {run: 'true', env: {X: 'v ${{ params.s }}', D: '${{ params.d }}', O: '${{ has(params.o) }}'}}}"), Options{File: "w.yaml"})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	w := ws[0]
	for _, given := range []any{"hunter2-hunter2", 2, []any{"hunter2"}} {
		var faults ValueErrors
		if _, err := w.CheckParams(map[string]any{"s": given}, time.Now()); !errors.As(err, &faults) || len(faults) != 1 || faults[0].Name != "s" || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %v", given, err)
		}
	}
	params, err := w.CheckParams(map[string]any{"s": SealedPrefix + "abc"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	in := Inputs{Params: params, Unseal: func(name, sealed string) (string, error) {
		if name != "s" || sealed != SealedPrefix+"abc" {
			t.Errorf("opens %s %s", name, sealed)
		}
		return "open", nil
	}}
	res, err := w.Resolve(0, in)
	if err != nil || len(res.Env) != 3 || res.Env[0].Value != "v open" || res.Env[1].Value != "a" || res.Env[2].Value != "false" {
		t.Errorf("%+v, %v", res.Env, err)
	}
	in.Unseal = nil
	if res, err := w.Resolve(0, in); err == nil {
		t.Errorf("without a key: %+v", res.Env)
	}
}

// TestSecretParamsAsAWhole: an earlier version accepted a file that reads params as a whole. Its tasks get
// no sealed text.
func TestSecretParamsAsAWhole(t *testing.T) {
	w, err := Decode([]byte(`{"name": "w", "params": [{"name": "s", "type": "secret"}, {"name": "d", "type": "string"}],
		"tasks": [{"name": "a", "run": {"shell": "true"}, "env": [{"k": "X", "v": "${{ params }}"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	res, err := w.Resolve(0, Inputs{Params: []byte(`{"s":"` + SealedPrefix + `abc","d":"a"}`)})
	if err != nil || len(res.Env) != 1 || res.Env[0].Value != `{"d":"a","s":"***"}` {
		t.Errorf("%+v, %v", res.Env, err)
	}
	for given, want := range map[string]string{
		`{"s":"hunter2","d":"a"}`: `{"d":"a","s":"***"}`, `{"s":["hunter2"]}`: `{"s":"***"}`, `{"s":null,"d":"a"}`: `{"s":null,"d":"a"}`,
		`["hunter2"]`: `{}`, ``: ``,
	} {
		if got := w.MaskParams([]byte(given)); string(got) != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}

// TestSecretParamsOfOthers: a value that does not come from a person or program at a start is refused. This
// holds also for a sealed value, because it was copied from another run.
func TestSecretParamsOfOthers(t *testing.T) {
	ws, errs := Parse([]byte("name: w\nparams: {s: {type: secret, required: false}}\ntasks: {a: {run: 'true'}}"), Options{File: "w.yaml"})
	caller, more := Parse([]byte("name: c\nparams: {x: string}\ntasks: {a: {workflow: w, with: {s: '${{ params.x }}'}}}"), Options{File: "c.yaml"})
	if errs = append(errs, more...); len(errs) > 0 {
		t.Fatal(errs)
	}
	w := ws[0]
	for name, params := range map[string]func(value string) (json.RawMessage, error){
		"trigger": func(v string) (json.RawMessage, error) {
			return w.StartParams([]byte(`{"s":"`+v+`"}`), time.Now(), nil)
		},
		"event": func(v string) (json.RawMessage, error) {
			return w.StartParams([]byte(`{"s":"${{ trigger.event.x }}"}`), time.Now(), []byte(`{"x":"`+v+`"}`))
		},
		"row": func(v string) (json.RawMessage, error) {
			return w.LiteralParams([]byte(`{"s":"`+v+`"}`), time.Now(), nil)
		},
		"call": func(v string) (json.RawMessage, error) {
			return caller[0].CallParams(0, Inputs{Params: []byte(`{"x":"` + v + `"}`)}, w)
		},
	} {
		for _, value := range []string{"hunter2", SealedPrefix + "hunter2"} {
			got, err := params(value)
			var faults ValueErrors
			if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Name != "s" || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %s, %v", name, got, err)
			}
		}
	}
	if got, err := w.LiteralParams([]byte(`{"s":null}`), time.Now(), nil); err != nil || string(got) != `{"s":null}` {
		t.Errorf("none: %s, %v", got, err)
	}
}
