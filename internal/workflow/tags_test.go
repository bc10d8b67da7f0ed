package workflow

import (
	"strings"
	"testing"
)

func TestTags(t *testing.T) {
	src := "name: x\ntags: {team: data, tier: 1, Where/now: Zürich}\nalerts: [{on: failed, to: ops, tags: {team: data}}]\ntasks: {a: {run: x}}\n"
	all, errs := Parse([]byte(src), Options{File: "f.yaml"})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	w := all[0]
	if got := w.TagLines(); got != "Where/now=Zürich\nteam=data\ntier=1" {
		t.Errorf("%q", got)
	}
	if len(w.Alerts[0].Tags) != 1 || w.Alerts[0].Tags[0] != (KV{"team", "data"}) {
		t.Errorf("of the alert: %v", w.Alerts[0].Tags)
	}
	for _, tags := range []string{
		"[data]", "{team: }", "{-x: y}", "{a b: y}", `{a: "${{ params.x }}"}`, "{a: " + strings.Repeat("x", 64) + "}",
		"{a: " + strings.Repeat("é", 32) + "}", "{a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1}",
	} {
		if _, errs := Parse([]byte("name: x\ntags: "+tags+"\ntasks: {a: {run: x}}\n"), Options{File: "f.yaml"}); len(errs) != 1 {
			t.Errorf("%s: %v", tags, errs)
		}
	}
}
