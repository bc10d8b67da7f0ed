package output

import (
	"encoding/json"
	"strings"
	"testing"
)

var allTypes = map[string]string{"s": "string", "i": "int", "f": "float", "b": "bool", "j": "json"}

// some returns only the declarations of the named outputs.
func some(names string) map[string]string {
	types := map[string]string{}
	for _, name := range strings.Fields(names) {
		types[name] = allTypes[name]
	}
	return types
}

func TestOutputsGood(t *testing.T) {
	for _, c := range []struct{ text, declared, want string }{
		{"", "", ""},
		{"\n  \n", "", ""},
		{"a=1", "", `{"a":"1"}`},
		{"a=1\nb=x y=z\r\n\na=2", "", `{"a":"2","b":"x y=z"}`},
		{"a=", "", `{"a":""}`},
		{"_A9= <&> ", "", `{"_A9":" <&> "}`},
		{"s=5\ni=-007\nf=1e3\nb=true\nj={\"x\": [1, null]}", "s i f b j", `{"b":true,"f":1000.0,"i":-7,"j":{"x":[1,null]},"s":"5"}`},
		{"i=9223372036854775807", "i", `{"i":9223372036854775807}`},
		{"f=0.1\nb=false", "f b", `{"b":false,"f":0.1}`},
		{"f=5", "f", `{"f":5.0}`},
		{`j=[ ]`, "j", `{"j":[]}`},
		{`j="\\u0000"`, "j", `{"j":"\\u0000"}`},
		{" {\"a\": \"x\",\n \"a\": \"y\"} \n", "", `{"a":"y"}`},
		{`{}`, "", ""},
		{`{"s":"x","i":5,"f":1.50,"b":false,"j":{"k":[true]}}`, "s i f b j", `{"b":false,"f":1.5,"i":5,"j":{"k":[true]},"s":"x"}`},
		{`{"n":5,"o":{"x": 1},"z":null,"s":"t"}`, "", `{"n":"5","o":"{\"x\":1}","s":"t","z":"null"}`},
	} {
		got, err := Parse([]byte(c.text), some(c.declared))
		if err != nil || string(got) != c.want {
			t.Errorf("%q: %s, %v, want %s", c.text, got, err, c.want)
		}
	}
}

func TestTexts(t *testing.T) {
	types := some("s i f j")
	for _, c := range []struct{ key, text, want string }{
		{"s", "5", `"5"`}, {"i", "5", "5"}, {"f", "5", "5.0"}, {"j", "[ 1 ]", "[1]"},
		{"other", "5", "5"}, {"other", "9007199254740993", "9007199254740993"}, {"other", "a b", `"a b"`}, {"other", `"x"`, `"x"`},
	} {
		got, err := Texts(map[string]string{c.key: c.text}, types)
		if err != nil || string(got[c.key]) != c.want {
			t.Errorf("%s=%s: %s, %v, want %s", c.key, c.text, got[c.key], err, c.want)
		}
	}
	for key, text := range map[string]string{"i": "5.5", "f": "NaN", "j": "[1"} {
		if got, err := Texts(map[string]string{key: text}, types); err == nil {
			t.Errorf("%s=%s: %s", key, text, got[key])
		}
	}
	if _, err := Texts(map[string]string{"i": strings.Repeat("9", 70_000)}, types); err == nil || len(err.Error()) > 200 {
		t.Errorf("%.300v", err)
	}
}

func TestOutputsBad(t *testing.T) {
	for _, c := range []struct{ text, declared, want string }{
		{"a=1\nnonsense", "", `line 2 of the outputs is not key=value: "nonsense"`},
		{"9a=1", "", `line 1 of the outputs: "9a" is not a key`},
		{"a-b=1", "", `"a-b" is not a key`},
		{"=1", "", `"" is not a key`},
		{" a=1", "", `" a" is not a key`},
		{strings.Repeat("k", 65) + "=1", "", "is not a key"},
		{"x=1\n\ni=five", "i", `line 3 of the outputs: "i" must be an int (64 bits), not "five"`},
		{"i=1.0", "i", "must be an int"},
		{"i= 1", "i", "must be an int"},
		{"i=9223372036854775808", "i", "must be an int"},
		{"i=", "i", "must be an int"},
		{"f=NaN", "f", "must be a float"},
		{"f=Inf", "f", "must be a float"},
		{"f=1e999", "f", "must be a float"},
		{"f=0x1p-2", "f", "must be a float"},
		{"f=", "f", "must be a float"},
		{"b=yes", "b", "must be true or false"},
		{"b=True", "b", "must be true or false"},
		{"j={", "j", "must be JSON"},
		{"j=", "j", "must be JSON"},
		{"j=1 2", "j", "must be JSON"},
		{`j="\u0000"`, "j", "must be JSON"},
		{"a=1", "i", `output "i" is declared but was not given`},
		{"", "s", `output "s" is declared but was not given`},
		{"a=\x00", "", "NUL byte"},
		{"a=\xff", "", "not valid UTF-8"},
		{"{\n\"a\": 1,\n}", "", "line 3 of the outputs: not one JSON object"},
		{`{"a":1} {"b":2}`, "", "not one JSON object"},
		{`{"a b":1}`, "", `"a b" is not a key`},
		{`{"a":"\u0000"}`, "", `"a" contains a NUL character`},
		{`{"i":"5"}`, "i", `"i" must be an int (64 bits), not "5"`},
		{`{"i":5.0}`, "i", "must be an int"},
		{`{"i":null}`, "i", "must be an int"},
		{`{"f":"5"}`, "f", "must be a float"},
		{`{"f":1e999}`, "f", "must be a float"},
		{`{"b":"true"}`, "b", "must be true or false"},
		{`{"b":1}`, "b", "must be true or false"},
		{`{"s":5}`, "s", "must be a string, not 5"},
		{`{"s":null}`, "s", "must be a string"},
		{`[1]`, "", "line 1 of the outputs is not key=value"},
	} {
		got, err := Parse([]byte(c.text), some(c.declared))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %s, %v, want %s", c.text, got, err, c.want)
		}
	}
}

// FuzzOutputs checks that whatever a task writes, the result is an error, or a JSON object without NULs in
// which every declared output has its type. Reading that object again must give the same object.
func FuzzOutputs(f *testing.F) {
	for _, seed := range []string{"s=5\ni=-007\nf=1e3\nb=true\nj={}", `{"s":"","i":1,"f":2,"b":true,"j":[]}`, "{", "a", "s=\\u0000"} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, declared bool) {
		types := map[string]string{}
		if declared {
			types = allTypes
		}
		got, err := Parse(data, types)
		if err != nil {
			if got != nil {
				t.Errorf("outputs with an error: %s", got)
			}
			return
		}
		if got == nil {
			return
		}
		var object map[string]any
		if err := json.Unmarshal(got, &object); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		for name, value := range object {
			ok := true
			switch kind := types[name]; kind {
			case "", "string":
				_, ok = value.(string)
			case "int", "float":
				_, ok = value.(float64)
			case "bool":
				_, ok = value.(bool)
			}
			if !ok || !outputKey(name) {
				t.Errorf("%q is %T in %s", name, value, got)
			}
		}
		again, err := Parse(got, types)
		if err != nil || string(again) != string(got) {
			t.Errorf("%s, again %s, %v", got, again, err)
		}
	})
}
