package workflow

import (
	"errors"
	"strings"
	"testing"
)

// TestSecretsWhereTheyMayBe: secrets are read in env, in the headers and the body of a request, and in the
// input of a kind.
func TestSecretsWhereTheyMayBe(t *testing.T) {
	const file = `name: w
env: {ALL: "${{ secrets.ONE }}"}
tasks:
  sh: {run: 'true', env: {A: "x-${{ secrets.ONE }}-${{ secrets['TWO'] }}"}}
  http:
    http: {url: "https://example.org", method: POST, headers: {Authorization: "Bearer ${{ secrets.ONE }}"}, body: {k: ["${{ secrets.TWO }}"]}}
  fn: {kind: render, with: {key: "${{ secrets.ONE }}", deep: [{more: "x ${{ secrets.TWO }}"}]}}
  each: {kind: render, with: {"k": "${{ item }}-${{ secrets.ONE }}"}, foreach: [a]}
`
	all, errs := Parse([]byte(file), Options{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	w := all[0]
	values := map[string]string{"ONE": "value-of-one", "TWO": `value "of" two`}
	in := Inputs{Secret: func(name string) (string, error) {
		if v, ok := values[name]; ok {
			return v, nil
		}
		return "", errors.New("there is none")
	}}
	sh, err := w.Resolve(0, in)
	if err != nil || len(sh.Env) != 2 || sh.Env[0].Value != "value-of-one" || sh.Env[1].Value != `x-value-of-one-value "of" two` {
		t.Errorf("%+v, %v", sh.Env, err)
	}
	sent, err := w.Resolve(1, in)
	if err != nil || sent.Request.Headers[0].Value != "Bearer value-of-one" || string(sent.Request.Body) != `{"k":["value \"of\" two"]}` {
		t.Errorf("%+v, %v", sent.Request, err)
	}
	fn, err := w.Resolve(2, in)
	if err != nil || string(fn.Input) != `{"deep":[{"more":"x value \"of\" two"}],"key":"value-of-one"}` {
		t.Errorf("%s, %v", fn.Input, err)
	}
	in.Item = []byte(`"a"`)
	if each, err := w.Resolve(3, in); err != nil || string(each.Input) != `{"k":"a-value-of-one"}` {
		t.Errorf("%s, %v", each.Input, err)
	}
	delete(values, "TWO")
	if _, err := w.Resolve(0, in); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Errorf("a missing secret: %v", err)
	}
}

func TestSecretsWhereTheyMayNotBe(t *testing.T) {
	for where, file := range map[string]string{
		"if":      "name: w\ntasks: {a: {run: 'true', if: \"secrets.ONE == 'x'\"}}\n",
		"dir":     "name: w\ntasks: {a: {run: 'true', dir: \"${{ secrets.ONE }}\"}}\n",
		"url":     "name: w\ntasks: {a: {http: {url: \"https://example.org/${{ secrets.ONE }}\"}}}\n",
		"call":    "name: w\ntasks: {a: {workflow: x, with: {k: \"${{ secrets.ONE }}\"}}}\n",
		"kind":    "name: w\ntasks: {a: {kind: \"${{ secrets.ONE }}\"}}\n",
		"default": "name: w\nparams: {p: {type: string, default: \"${{ secrets.ONE }}\"}}\ntasks: {a: {run: 'true'}}\n",
		"foreach": "name: w\ntasks: {a: {run: 'true', foreach: \"${{ [secrets.ONE] }}\"}}\n",
		"has":     "name: w\ntasks: {a: {run: 'true', env: {A: \"${{ has(secrets.ONE) }}\"}}}\n",
		"whole":   "name: w\ntasks: {a: {run: 'true', env: {A: \"${{ secrets }}\"}}}\n",
		"a name":  "name: w\ntasks: {a: {run: 'true', env: {A: \"${{ secrets['a-b'] }}\"}}}\n",
	} {
		_, errs := Parse([]byte(file), Options{})
		if len(errs) == 0 || !strings.Contains(errs[0].Error(), "secret") {
			t.Errorf("%s: %v", where, errs)
		}
	}
}
