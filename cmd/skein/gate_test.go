//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestGateThreeNodes uses a queue and a lock on three nodes. One node admits the runs of all nodes. This node
// and others are killed while requests and grants are on their way. At no time are more runs admitted than
// the limit allows, every run ends, and no slot is held at the end.
func TestGateThreeNodes(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 3)
	one := f.members[0].home
	one.until("each node owns shards", func() bool { return len(f.owners()) == 3 })
	dir := t.TempDir()
	t.Run("lock", func(t *testing.T) { f.lockShared(t, dir) })
	t.Run("queue", func(t *testing.T) { f.queueShared(t, dir) })
	one.until("no message waits", func() bool {
		out, err := f.query("select count(*) from skein.message")
		return err == nil && out == "0"
	})
	f.sound()
	for _, m := range f.members {
		m.stop()
	}
}

// sound checks that the invariants of the rows hold while the nodes run.
func (f *flight) sound() {
	f.t.Helper()
	if out := f.members[0].home.run("verify"); !bytes.Contains(out, []byte(`"violations": []`)) {
		f.t.Errorf("verify: %s", out)
	}
}

// naming applies workflows of one short task. Each names the given queue or locks. The task writes down when
// it began and ended.
func (f *flight) naming(t *testing.T, dir, prefix, names, witness string, n int) (flows []string) {
	t.Helper()
	for i := range n {
		name := fmt.Sprint(prefix, i)
		note := "$SKEIN_RUN_ID $SKEIN_LOCK_TOKEN $(date +%s%N) >> " + witness
		text := fmt.Sprintf("name: %s\n%s\ntasks:\n  a: {run: %q}\n", name, names, "echo begin "+note+"; sleep 0.05; echo end "+note)
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f.members[i%len(f.members)].home.run("workflow", "apply", file)
		flows = append(flows, name)
	}
	return flows
}

// begin starts a run through a node, and repeats the call until it succeeds.
func (m *member) begin(t *testing.T, flow, key string) (id string) {
	t.Helper()
	m.home.until("a run of "+flow+" is accepted", func() bool {
		run, _, err := m.client.Start(t.Context(), api.RunRequest{Workflow: flow, IdempotencyKey: key})
		id = run.ID
		return err == nil
	})
	return id
}

// ended waits until no run is unfinished, and checks that all given runs succeeded.
func (f *flight) ended(t *testing.T, ids []string) {
	t.Helper()
	f.members[0].home.until("every run has ended", func() bool {
		page, err := f.members[0].client.Runs(t.Context(), skein.RunsQuery{State: "active"})
		return err == nil && len(page.Items) == 0
	})
	for _, id := range ids {
		if run, err := f.members[1].client.Run(t.Context(), id); err != nil || run.State != "succeeded" {
			t.Errorf("run %s is %s: %v", id, run.State, err)
		}
	}
}

// passage is a run according to the records of its tasks: the lines of the witness at which it first began
// and last ended.
type passage struct {
	run        string
	token      int64
	begin, end int
}

// passages reads a witness, in the order in which its runs began.
func passages(t *testing.T, witness string) (all []*passage) {
	t.Helper()
	text, err := os.ReadFile(witness)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]*passage{}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		words := strings.Fields(line)
		if len(words) != 4 {
			t.Fatalf("line %d of the witness: %q", i, line)
		}
		p := of[words[1]]
		if p == nil {
			token, err := strconv.ParseInt(words[2], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			p = &passage{run: words[1], token: token, begin: i, end: -1}
			of[p.run] = p
			all = append(all, p)
		}
		if words[0] == "end" {
			p.end = i
		}
	}
	return all
}

// atMost requires that no more passages overlap than the limit allows. A run whose attempt was lost with
// its node keeps its queue slot until another attempt has ended it.
func atMost(t *testing.T, all []*passage, limit int) {
	t.Helper()
	most := 0
	for _, p := range all {
		if p.end < p.begin {
			t.Errorf("run %s began and never ended", p.run)
		}
		n := 0
		for _, o := range all {
			if o.begin <= p.begin && p.begin < o.end {
				n++
			}
		}
		most = max(most, n)
	}
	if most > limit {
		t.Errorf("%d runs at once, at most %d may", most, limit)
	}
	t.Logf("%d runs, up to %d at once", len(all), most)
}

func (f *flight) lockShared(t *testing.T, dir string) {
	witness := filepath.Join(dir, "locked")
	flows := f.naming(t, dir, "locked", "locks: [l]", witness, 6)
	var ids []string
	for i := range 30 {
		ids = append(ids, f.members[i%3].begin(t, flows[i%len(flows)], fmt.Sprint("lock", i)))
	}
	f.ended(t, ids)
	all := passages(t, witness)
	atMost(t, all, 1)
	for i := 1; i < len(all); i++ {
		if all[i].token <= all[i-1].token {
			t.Errorf("run %s held the lock under %d, after one that had %d", all[i].run, all[i].token, all[i-1].token)
		}
	}
	if len(all) != len(ids) || all[0].token == 0 {
		t.Errorf("%d of %d runs held the lock, the first under %d", len(all), len(ids), all[0].token)
	}
	locks, err := f.members[2].client.Locks(t.Context())
	if err != nil || len(locks.Items) > 0 {
		t.Errorf("still held: %+v, %v", locks.Items, err)
	}
}

func (f *flight) queueShared(t *testing.T, dir string) {
	const limit, runs, kills = 5, 150, 6
	one, witness := f.members[0].home, filepath.Join(dir, "queued")
	one.run("queue", "set", "q", "--limit", fmt.Sprint(limit))
	flows := f.naming(t, dir, "queued", "queue: q", witness, 12)
	var ids []string
	for i := range runs {
		ids = append(ids, f.members[i%3].begin(t, flows[i%len(flows)], fmt.Sprint("queue", i)))
	}
	for i := range kills {
		goal := (i + 1) * runs / (kills + 2)
		one.until(fmt.Sprintf("%d runs have ended", goal), func() bool { return ends(witness) >= goal })
		m := f.members[i/2%3]
		if i%2 == 0 { // the node that admits the runs, if it is known
			m = f.gatekeeper(m)
		}
		m.kill()
		if i > 1 {
			one.until("its silence was noticed", func() bool { return f.owners()[m.name] == 0 })
		}
		m.start()
		f.sound()
	}
	f.ended(t, ids)
	all := passages(t, witness)
	if atMost(t, all, limit); len(all) != runs {
		t.Errorf("%d of %d runs began", len(all), runs)
	}
	for _, m := range f.members {
		q, err := m.client.Queue(t.Context(), "q")
		if err != nil || q.Held != 0 || q.Waiting != 0 {
			t.Errorf("%s: %d hold a place, %d wait: %v", m.name, q.Held, q.Waiting, err)
		}
	}
	f.refilled(t, dir, limit)
}

// refilled checks that the queue still admits as many runs as at the beginning, so that no slot was lost.
func (f *flight) refilled(t *testing.T, dir string, limit int) {
	t.Helper()
	gate := filepath.Join(dir, "go")
	file := filepath.Join(dir, "held.yaml")
	text := "name: held\nqueue: q\ntasks:\n  a: {run: 'until [ -e " + gate + " ]; do sleep 0.05; done'}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	one := f.members[0]
	one.home.run("workflow", "apply", file)
	var ids []string
	for i := range limit + 2 {
		ids = append(ids, one.begin(t, "held", fmt.Sprint("held", i)))
	}
	one.home.until("all places are taken", func() bool {
		q, err := one.client.Queue(t.Context(), "q")
		return err == nil && q.Held == int64(limit) && q.Waiting == 2
	})
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.ended(t, ids)
}

// gatekeeper returns the member that admits runs, or other if that member is not known.
func (f *flight) gatekeeper(other *member) *member {
	f.t.Helper()
	name, err := f.query("select m.name from skein.shard s join skein.member m on m.handler = s.owner where s.id = 0")
	if err != nil {
		f.t.Fatal(err)
	}
	for _, m := range f.members {
		if m.name == name {
			return m
		}
	}
	return other
}
