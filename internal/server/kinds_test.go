package server_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// TestKinds: each declaration of a kind is one row, with the members that have it.
func TestKinds(t *testing.T) {
	b, town := newTown(t)
	mail := dag.Extension{Kind: "mail.send", Version: "1.2.0", Digest: "d1", Connection: "http,postgres"}
	newer := dag.Extension{Kind: "mail.send", Version: "1.3.0", Digest: "d2"}
	for name, is := range map[string]store.Traits{
		"w1": {Extensions: []dag.Extension{{Kind: dag.HousePrefix + "sql", Version: "1.2.3", Connection: "postgres"}, mail}},
		"w2": {Extensions: []dag.Extension{newer, mail}},
		"w3": {Kinds: []string{"vm.create"}},
		"w4": {Refused: []dag.Refusal{{Folder: "/etc/skein/extensions/mail", Why: "others can write it"}}},
		"w5": {Refused: []dag.Refusal{{Folder: "/etc/skein/extensions/mail", Why: "others can write it"}}},
	} {
		h := must(town.Register(t.Context(), "0180000"+name[1:]+"-0000-7000-8000-000000000000", name))
		town.join(t, store.Member{Handler: h.ID, UUID: h.UUID, Name: name, Slots: 1, Traits: is})
	}
	got := map[string]api.Kind{}
	for _, k := range want[api.List[api.Kind]](t, b.get("/api/v1/kinds"), 200).Items {
		version := ""
		if k.Version != nil {
			version = *k.Version
		}
		got[k.Kind+" "+version+" "+k.Origin] = k
	}
	if k := got["mail.send 1.2.0 extension"]; k.Total != 2 || k.Members[0] != "w1" || k.Members[1] != "w2" || len(k.Connections) != 2 || *k.Digest != "d1" {
		t.Errorf("%+v", k)
	}
	if k := got["mail.send 1.3.0 extension"]; k.Total != 1 || k.Members[0] != "w2" {
		t.Errorf("%+v", k)
	}
	if k, ok := got["sql 1.2.3 skein"]; !ok || k.Digest != nil {
		t.Errorf("%+v in %+v", k, got)
	}
	refused := want[api.List[api.RefusedExtension]](t, b.get("/api/v1/refused-extensions"), 200).Items
	if len(refused) != 1 || refused[0].Why != "others can write it" || refused[0].Total != 2 || refused[0].Members[0] != "w4" {
		t.Errorf("refused: %+v", refused)
	}
	if k, ok := got["vm.create  worker"]; !ok || k.Version != nil || len(k.Connections) != 0 {
		t.Errorf("%+v in %+v", k, got)
	}
}

// TestRefusals: the reasons of a worker are bounded, and hold no control characters.
func TestRefusals(t *testing.T) {
	var is dag.Traits
	for range 2 * dag.RefusalsMax {
		is.Refuse(strings.Repeat("f", 1000), "a\n"+strings.Repeat("é", 1000))
	}
	if r := is.Refused[0]; len(is.Refused) != dag.RefusalsMax || len(r.Folder) != 300 || len(r.Why) > 500 || !utf8.ValidString(r.Why) || r.Why[:2] != "a " {
		t.Errorf("%d refusals, the first is %+v", len(is.Refused), r)
	}
}

// TestOutside: a task shows the work that its attempts have left outside of their processes.
func TestOutside(t *testing.T) {
	b := newBed(t, false)
	b.put("train", "name: train\ntasks:\n  a: {run: ./train.sh, release: ./cancel.sh}\n")
	run := b.run("train")
	a := <-b.exec.got
	task := func() api.Attempt { return must(b.client.Task(t.Context(), run.ID, "a")).Attempts[0] }
	if is := task(); is.Outside != nil {
		t.Errorf("%+v before it has named anything", is.Outside)
	}
	b.engine.Report(engine.Report{Run: a.Run, Task: a.Task, Token: a.Token, Started: dag.Micro(time.Now()), Handle: "job-17"})
	eventually(t, "the handle is shown", func() bool { is := task().Outside; return is != nil && is.Handle == "job-17" })
	if is := task().Outside; is.State != "held" || is.Errand != nil || is.Since != nil || is.Why != nil {
		t.Errorf("%+v", is)
	}
	b.exec.end(a, dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, ExitCode: 1})
	eventually(t, "the errand is shown", func() bool { is := task().Outside; return is != nil && is.State == "releasing" })
	if is := task().Outside; is.Errand == nil || is.Since == nil {
		t.Errorf("%+v", is)
	}
}
