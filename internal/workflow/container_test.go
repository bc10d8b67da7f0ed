package workflow

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestContainer(t *testing.T) {
	w := must(t, `
name: c
params: {version: {type: string, default: "3.12"}}
env: {A: "${{ params.version }}"}
tasks:
  build:
    container: {image: "python:${{ params.version }}", run: [echo, 5], user: 1000, mounts: {data: "/data:rw"}, network: none}
    env: {KEY: "${{ secrets.K }}"}
    artifacts: [out/**]
    retry: {max: 1, on_exit: [3]}
  plain: {container: {image: busybox}}
`)
	roundTrip(t, w)
	if p := w.Policy(0); p.Place.Kind() != "skein:container" || len(p.Retry.OnExit) != 1 || !w.Tasks[0].Boxed() {
		t.Errorf("%q %+v", p.Place, p.Retry)
	}
	in := Inputs{Params: json.RawMessage(`{"version":"3.12"}`), Process: true, Secret: func(string) (string, error) { return "canary", nil }}
	got, err := w.Resolve(0, in)
	want := `{"env":{"A":"3.12","KEY":"canary"},"image":"python:3.12","mounts":{"data":"/data:rw"},"network":"none","run":{"argv":["echo","5"]},"user":"1000"}`
	if err != nil || string(got.Input) != want || got.Env != nil {
		t.Errorf("%s, %v, %v", got.Input, got.Env, err)
	}
	if got, err = w.Resolve(1, in); err != nil || string(got.Input) != `{"env":{"A":"3.12"},"image":"busybox"}` {
		t.Errorf("%s, %v", got.Input, err)
	}
	for task, want := range map[string]string{
		`{container: {image: "dir:/etc"}}`:                            "is not the name of an image",
		`{container: {image: a, privileged: true}}`:                   "privileged",
		`{container: {image: a, network: host}}`:                      "own, none",
		`{container: {image: a, user: "a b"}}`:                        "is not a user",
		`{container: {image: a, mounts: {data: "/proc"}}}`:            "choose another path",
		`{container: {image: a, mounts: {/srv: /data}}}`:              "the name of a mount",
		`{container: {image: a, run: "echo ${{ params.x }}"}}`:        "${{ }} is not allowed",
		`{container: {image: a, run: {python: x, args: [a]}}}`:        "args",
		`{container: {image: a}, dir: /srv}`:                          "dir does not belong to container",
		`{container: {image: a}, access: {read: /srv}}`:               "access does not belong to container",
		`{container: {run: a}}`:                                       "has no image",
		`{container: {image: a, run: x}, env: {B: c}, inputs: [x/y]}`: "inputs",
	} {
		_, errs := Parse([]byte("name: w\nparams: {x: {type: string, default: a}}\ntasks:\n  a: "+task+"\n"), Options{File: "f.yaml"})
		if said := errs.Error(); !strings.Contains(said, want) {
			t.Errorf("%s: %s; want %q", task, said, want)
		}
	}
}
