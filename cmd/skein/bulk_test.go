//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// bulk has runs of two workflows, alternately. The node n1 owns the first workflow, and n2 the second.
type bulk struct {
	*flight
	ids []string
}

// verb calls one node to apply a verb to runs, and checks that the verb was applied to all of them.
func (b *bulk) verb(m *member, verb string, choice api.BulkRequest, opts ...skein.CallOption) api.BulkResult {
	b.t.Helper()
	res, err := m.client.VerbRuns(b.t.Context(), verb, api.BulkVerb{BulkRequest: choice, VerbRequest: api.VerbRequest{Reason: "a look"}}, opts...)
	if err != nil || res.Done != res.Count || res.Refused != 0 || len(res.Items) != res.Count {
		b.t.Fatalf("%s of several runs: %+v, %v", verb, res, err)
	}
	return res
}

// each waits until a condition holds for every run, as a node returns the run.
func (b *bulk) each(m *member, what string, is func(i int, r *api.Run) bool) {
	b.t.Helper()
	for i, id := range b.ids {
		m.home.until(fmt.Sprintf("run %d %s", i, what), func() bool {
			run, err := m.client.Run(b.t.Context(), id)
			return err == nil && is(i, &run)
		})
	}
}

// bulkByHand applies verbs to several runs in one call, by a filter and by id. The runs belong to both nodes.
// It does the same while one of the nodes is dead.
func (f *flight) bulkByHand() {
	f.t.Helper()
	one, two, dir := f.members[0], f.members[1], f.t.TempDir()
	b := &bulk{flight: f}
	for _, name := range []string{"held1", "held2"} {
		one.apply(name, "  a: {run: 'until [ -e "+dir+"/open ]; do sleep 0.05; done'}\n")
	}
	f.at(map[string]string{"held1": "n1", "held2": "n2"})
	for i := range 6 { // each run is started at the node that does not own it
		run, _, err := f.members[1-i%2].client.Start(f.t.Context(), api.RunRequest{Workflow: fmt.Sprint("held", i%2+1)})
		if err != nil {
			f.t.Fatal(err)
		}
		b.ids = append(b.ids, run.ID)
	}
	five, six, next := 5, 6, uuid.Must(uuid.NewV7()).String()
	if res, err := one.client.VerbRuns(f.t.Context(), "stop", api.BulkVerb{BulkRequest: api.BulkRequest{All: true, DryRun: true}}); err != nil || res.Count != 6 || res.Done != 0 {
		f.t.Errorf("a dry run: %+v, %v", res, err)
	}
	if res, err := two.client.VerbRuns(f.t.Context(), "stop", api.BulkVerb{BulkRequest: api.BulkRequest{All: true, Expect: &five}}); err == nil {
		f.t.Errorf("another number than was expected: %+v", res)
	}
	b.verb(one, "pause", api.BulkRequest{Workflow: "held2", Confirm: true}) // all of these runs belong to the other node
	b.each(two, "is to pause, or to run", func(i int, r *api.Run) bool { return (r.Intent == "pause") == (i%2 == 1) })
	b.verb(two, "resume", api.BulkRequest{All: true, Confirm: true})
	b.each(one, "is to run", func(_ int, r *api.Run) bool { return r.Intent == "run" })
	first := b.verb(two, "stop", api.BulkRequest{All: true, Expect: &six}, skein.Key("stop-all"))
	b.each(one, "is stopped", func(_ int, r *api.Run) bool { return r.State == "stopped" })

	if err := os.WriteFile(filepath.Join(dir, "open"), nil, 0o600); err != nil {
		f.t.Fatal(err)
	}
	stopped := api.BulkRequest{All: true, State: "stopped", Confirm: true}
	if res, err := one.client.RecoverRuns(f.t.Context(), api.BulkRecover{BulkRequest: stopped}); err != nil || res.Done != 6 || first.Done != 6 {
		f.t.Fatalf("recover: %+v, %v", res, err)
	}
	b.each(two, "succeeds in its second generation", func(_ int, r *api.Run) bool { return r.State == "succeeded" && r.Generation == 2 })
	res, err := one.client.RerunRuns(f.t.Context(), api.BulkRerun{BulkRequest: api.BulkRequest{Runs: append([]string{next}, b.ids[:2]...)}})
	if err != nil || res.Count != 3 || res.Done != 2 || res.Items[0].Outcome != "refused" || res.Items[0].Problem == nil || res.Items[0].Problem.Status != 404 {
		f.t.Fatalf("rerun: %+v, %v", res, err)
	}
	was := b.ids
	b.ids = []string{res.Items[1].Run.ID, res.Items[2].Run.ID}
	b.each(two, "succeeds anew", func(_ int, r *api.Run) bool { return r.State == "succeeded" && !slices.Contains(was, r.ID) })
}

// bulkBesideTheDead stops runs of both nodes while one of them is dead and no node has noticed. The stops
// of its runs are stored for the next owner, and reported as done.
func (f *flight) bulkBesideTheDead() {
	f.t.Helper()
	one, two := f.members[0], f.members[1]
	b := &bulk{flight: f}
	one.apply("held1", "  a: {node: n1, run: 'sleep 600'}\n") // replaces the version of the earlier test
	one.apply("held2", "  a: {node: n1, run: 'sleep 600'}\n")
	for i := range 4 {
		run, _, err := one.client.Start(f.t.Context(), api.RunRequest{Workflow: fmt.Sprint("held", i%2+1)})
		if err != nil {
			f.t.Fatal(err)
		}
		b.ids = append(b.ids, run.ID)
	}
	b.each(one, "runs", func(_ int, r *api.Run) bool { return r.State == "running" })
	two.kill()
	b.verb(one, "stop", api.BulkRequest{All: true, Confirm: true})
	b.each(one, "is stopped", func(_ int, r *api.Run) bool { return r.State == "stopped" })
	two.start()
	f.listed(2)
}
