//go:build linux

package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// readsMost is the factor by which the rows read per run may grow while the history grows tenfold.
const readsMost = 1.5

// TestAddedMachines adds nodes and a worker on machines of their own to a cluster that has work. Each of them
// takes a part of the shards and of the attempts. Between two equal batches of runs the history grows more than
// tenfold, and a run of the second batch reads no more rows than one of the first.
func TestAddedMachines(t *testing.T) {
	t.Parallel()
	const flows, batch, history = 24, 120, 1500
	f := newNetworked(t, 1, "SKEIN_SLOTS=4", "SKEIN_RETENTION_RUNS=1000000")
	f.worker("w1", "--slots", "4", "--group", "hands")
	f.listed(2)
	one := f.members[0]
	for i := range flows {
		more := ""
		if i%2 == 0 {
			more = "group: hands, "
		}
		one.apply(fmt.Sprint("load", i), "  a: {"+more+"run: 'sleep 0.05'}\n")
	}
	one.apply("past", "  a: {wait: 1ms}\n")
	f.batch(flows, batch, "load%d")
	f.add()
	f.add()
	f.worker("w2", "--slots", "4", "--group", "hands")
	f.listed(5)
	f.until("the shards are spread evenly", func() bool {
		owners := f.owners()
		return min(owners["n1"], owners["n2"], owners["n3"]) >= 10
	})
	before, ids := f.settled(), f.batch(flows, batch, "load%d")
	small := f.reads().since(before, batch)
	f.shared(ids)
	f.batch(1, history, "past")
	before = f.settled()
	f.batch(flows, batch, "load%d")
	large := f.reads().since(before, batch)
	t.Logf("rows read per run, by table: %v, and %v", small, large)
	t.Logf("rows read per run: %.1f with a history of %d runs, %.1f with %d", small.sum(), batch, large.sum(), 2*batch+history)
	if large.sum() > small.sum()*readsMost {
		t.Errorf("a run reads %.1f rows after %d more runs, and %.1f before", large.sum(), history, small.sum())
	}
	f.verified()
}

// batch starts runs of workflows in turn, through each node in turn, and waits until they have succeeded.
func (f *flight) batch(flows, runs int, name string) (ids []string) {
	f.t.Helper()
	const most = 500
	for len(ids) < runs {
		var starts []api.RunRequest
		for i := range min(most, runs-len(ids)) {
			flow := name
			if strings.Contains(name, "%d") {
				flow = fmt.Sprintf(name, i%flows)
			}
			starts = append(starts, api.RunRequest{Workflow: flow})
		}
		res, err := f.members[len(ids)%len(f.members)].client.StartBatch(f.t.Context(), starts)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, v := range res.Items {
			if v.Run == nil {
				f.t.Fatalf("a start was refused: %+v", v)
			}
			ids = append(ids, *v.Run)
		}
	}
	for _, id := range ids { // a list of all active runs would read rows of other runs
		f.members[0].home.until("run "+id+" has ended", func() bool {
			run, err := f.members[0].client.Run(f.t.Context(), id, skein.Wait(10*time.Second))
			return err == nil && run.State == "succeeded"
		})
	}
	return ids
}

// counts are numbers of rows by table.
type counts map[string]float64

// since returns the difference to earlier counts, divided by a number of runs.
func (c counts) since(before counts, runs float64) counts {
	grown := counts{}
	for table, n := range c {
		if d := n - before[table]; d > 0 {
			grown[table] = d / runs
		}
	}
	return grown
}

func (c counts) sum() (all float64) {
	for _, n := range c {
		all += n
	}
	return all
}

// settled waits until the database reads few rows, and returns the counts. After the end of the runs, other
// work still reads rows, such as the tally of the runs.
func (f *flight) settled() (is counts) {
	f.t.Helper()
	const little, pause = 500, time.Second
	before := f.reads()
	f.until("little is read", func() bool {
		time.Sleep(pause)
		is = f.reads()
		done := is.sum()-before.sum() < little
		before = is
		return done
	})
	return is
}

// reads returns the number of rows that the database has read so far, by table. It ends the connections of
// the nodes, because a session of PostgreSQL reports its counts at its end.
func (f *flight) reads() counts {
	f.t.Helper()
	if _, err := f.query("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'skein'"); err != nil {
		f.t.Fatal(err)
	}
	f.until("no connection is left of those that worked", func() bool {
		for _, m := range f.members {
			if m.client.Ready(f.t.Context()) != nil {
				return false
			}
		}
		return true
	})
	out, err := f.query("select relname || ' ' || coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) from pg_stat_user_tables where relname not in ('member', 'shard')")
	if err != nil {
		f.t.Fatal(err)
	}
	by := counts{}
	for line := range strings.Lines(out) {
		table, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if by[table], err = strconv.ParseFloat(number, 64); err != nil {
			f.t.Fatal(err)
		}
	}
	return by
}

// shared checks that every node and every worker had a part of the attempts of some runs.
func (f *flight) shared(ids []string) {
	f.t.Helper()
	by := map[string]int{}
	for _, id := range ids {
		for _, a := range f.members[0].attempts(id, "a") {
			by[a.Node]++
		}
	}
	f.t.Logf("attempts by node and worker: %v", by)
	for _, name := range []string{"n1", "n2", "n3", "w1", "w2"} {
		if by[name] == 0 {
			f.t.Errorf("%s had none of the attempts %v", name, by)
		}
	}
}
