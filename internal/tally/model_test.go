package tally_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestModel plays random histories of runs, with ends of which no folder was notified, new owners, steps in
// between, and retention that deletes runs. At the end, each end has been counted once, and the check finds
// no difference.
func TestModel(t *testing.T) {
	onStores(t, func(b *bench) {
		b.step() // before its first step, the tally does not exist, and retention need not wait for it
		for seed := range uint64(4) {
			rnd := rand.New(rand.NewPCG(seed, 26))
			m := model{bench: b, rnd: rnd, base: int32(10 + 5*seed), now: d(int32(10 + 5*seed))}
			for range 120 {
				m.act()
				if b.Failed() {
					b.Fatalf("seed %d: %q", seed, m.did[max(0, len(m.did)-30):])
				}
			}
			m.takeover()
			b.step()
			for of := m.base; of < m.base+5; of++ {
				if is := b.cell(of, "").Ends; is != m.ends[of-m.base] {
					b.Fatalf("seed %d, day %d: %v, want %v after %q", seed, of, is, m.ends[of-m.base], m.did)
				}
			}
			b.verified()
		}
	})
}

// model counts the ends of the runs of a bench, in the five days that begin with base.
type model struct {
	*bench
	rnd    *rand.Rand
	base   int32
	now    dag.Micros
	active []dag.RunRow
	over   []dag.RunRow
	ends   [5][4]int64 // by day and outcome
	did    []string
}

var outcomes = []dag.RunState{dag.RunSucceeded, dag.RunFailed, dag.RunStopped}

func (m *model) act() {
	what := [...]string{"run", "run", "end", "end", "end", "again", "step", "deaf", "takeover", "expire"}[m.rnd.IntN(10)]
	m.did = append(m.did, what)
	m.now += dag.Micros(m.rnd.Int64N(int64(4*day/130)) + 2e6) // the clock of the database does not go back
	switch what {
	case "run":
		if len(m.active)+len(m.over) < 40 {
			m.active = append(m.active, m.run(m.now-dag.Micros(m.rnd.Int64N(5e6))))
		}
	case "end":
		if len(m.active) == 0 {
			return
		}
		i, of := m.rnd.IntN(len(m.active)), m.rnd.IntN(3)
		r := m.active[i]
		m.end(&r, outcomes[of], m.now, dag.Micros(m.rnd.Int64N(1e6)))
		m.active, m.over = slices.Delete(m.active, i, i+1), append(m.over, r)
		m.ends[store.DayOf(r.FinishedAt)-store.DayOf(d(m.base))][of]++
	case "again":
		if len(m.over) == 0 {
			return
		}
		i := m.rnd.IntN(len(m.over))
		r := m.over[i]
		m.again(&r, m.now)
		m.active, m.over = append(m.active, r), slices.Delete(m.over, i, i+1)
	case "step":
		_ = m.folder.Step(m.Context()) // ends that it cannot count now are counted later
	case "deaf": // the process dies before the folder is notified of the next ends
		m.heard = false
	case "takeover":
		m.takeover()
	case "expire":
		m.expire()
	}
}

// takeover makes a new owner with a folder of its own. The former owner makes a last step, which is fenced.
func (m *model) takeover() {
	former := m.folder
	m.take()
	m.fresh()
	m.heard = true
	_ = former.Step(m.Context()) // this step may be fenced
}

// expire deletes some of the counted runs.
func (m *model) expire() {
	marks, err := m.st.TallyMarks(m.Context(), 0)
	m.ok(err)
	mark, ok := store.Counted(marks, 1)
	x := store.Expiry{Workflow: 1, Before: d(m.base + 10), Limit: 2, Tallied: ok, Counted: mark.Seq}
	did, err := store.Can(m.st).Retention.Expire(m.Context(), m.owner, x)
	m.ok(err)
	m.over = slices.DeleteFunc(m.over, func(r dag.RunRow) bool { return slices.Contains(did.Runs, r.ID) })
	m.did = append(m.did, fmt.Sprint(len(did.Runs), " gone"))
}
