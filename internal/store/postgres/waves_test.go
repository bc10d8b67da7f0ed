package postgres_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
)

const noWaves = "DROP VIEW unfinished; DROP TABLE wave; " + noStates

// surf is a store under load. The test reads its list of unfinished runs after each step.
type surf struct {
	*testing.T
	*load
	schema     string
	unfinished map[dag.RunID]bool
}

func newSurf(t *testing.T) *surf {
	s := &surf{T: t, schema: newSchema(), unfinished: map[dag.RunID]bool{}}
	s.load = newLoad(t, open(t, s.options()), 0)
	return s
}

func (s *surf) options() postgres.Options {
	return postgres.Options{URL: server.URL("postgres"), Schema: s.schema, Shards: 1}
}

// step ends some of the runs that the previous step started, given by their indexes, and starts n runs.
func (s *surf) step(n int, ended ...int) {
	s.Helper()
	goOn := slices.Clone(s.before)
	b := s.batch(n) // this batch ends all runs
	started := slices.Clone(s.before)
	b.RunUpdates, b.AttemptUpdates = b.RunUpdates[:0:0], b.AttemptUpdates[:0:0]
	b.Events = b.Events[:0:0]
	for i, r := range goOn {
		if !slices.Contains(ended, i) {
			continue
		}
		r.State, r.FinishedAt = dag.RunSucceeded, s.now
		b.RunUpdates = append(b.RunUpdates, dag.RunUpdate{RunRow: r, Was: dag.RunRunning})
		delete(s.unfinished, r.ID)
	}
	if err := s.commit(b); err != nil {
		s.Fatal(err)
	}
	s.before = nil
	for i, r := range goOn {
		if !slices.Contains(ended, i) {
			s.before = append(s.before, r)
		}
	}
	s.before = append(s.before, started...)
	for i := range started {
		s.unfinished[started[i].ID] = true
	}
}

// listed requires these numbers of rows and waves, and that every reader of the list finds all runs.
func (s *surf) listed(rows, waves int) {
	s.Helper()
	if a, w := count(s.T, s.schema, "active"), count(s.T, s.schema, "wave"); a != rows || w != waves {
		s.Errorf("%d rows and %d waves, want %d and %d", a, w, rows, waves)
	}
	bad, err := s.db.Check(s.Context())
	if err != nil || bad != nil {
		s.Errorf("check: %q, %v", bad, err)
	}
	found := map[dag.RunID]int{}
	for after := (dag.RunID{}); ; {
		page, err := s.db.Load(s.Context(), store.LoadQuery{Limit: 7, After: after})
		if err != nil {
			s.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			found[page[i].Run.ID]++
		}
		after = page[len(page)-1].Run.ID
	}
	if len(found) != len(s.unfinished) {
		s.Errorf("%d are loaded, %d are unfinished", len(found), len(s.unfinished))
	}
	for id, n := range found {
		if n != 1 || !s.unfinished[id] {
			s.Errorf("run %s is loaded %d times, unfinished: %v", id, n, s.unfinished[id])
		}
	}
	counts, err := s.db.Unfinished(s.Context())
	if err != nil || counts["running"] != len(s.unfinished) {
		s.Errorf("counted %v, %v", counts, err)
	}
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// TestWaves: a wave is kept until only a quarter of its runs is left, and is deleted as a whole if all runs
// end at once.
func TestWaves(t *testing.T) {
	s := newSurf(t)
	s.step(15)
	s.listed(15, 0) // too few runs for a wave
	s.step(40, upTo(15)...)
	s.listed(0, 1)
	s.step(20, upTo(29)...)
	s.listed(0, 2)
	s.step(0, 0)
	s.listed(10, 1)
	s.step(0, upTo(11)...)
	s.listed(0, 1)
	s.step(3, upTo(19)...)
	s.listed(3, 0)
	s.step(0, upTo(3)...)
	s.listed(0, 0)
}

// TestWavesAreFew: a shard never has many waves.
func TestWavesAreFew(t *testing.T) {
	s := newSurf(t)
	for range 17 {
		s.step(16)
	}
	s.listed(16, 16)
	s.step(0, upTo(16)...)
	s.step(16)
	s.listed(16, 16)
}

// TestWavesOfOthers: the next owner of a shard unpacks its waves when it takes the shard. An owner that has
// forgotten the waves after a failed commit unpacks them with the next change of a run.
func TestWavesOfOthers(t *testing.T) {
	for name, lose := range map[string]func(s *surf){
		"next owner": func(s *surf) {
			before := s.before
			s.load = newLoad(s.T, open(s.T, s.options()), 0)
			s.before = before
		},
		"same store again": func(s *surf) {
			before := s.before
			s.load = newLoad(s.T, s.db, 0)
			s.before = before
		},
		"failed commit": func(s *surf) {
			b := &store.Batch{Fences: s.fences, Consumed: []int64{99}}
			is(s.T, s.commit(b), store.ErrFenced, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSurf(t)
			s.step(40)
			if lose(s); name != "failed commit" { // taking the shard unpacks the waves
				s.listed(40, 0)
			} else {
				s.listed(0, 1)
			}
			s.step(30, 1, 3, 5)
			s.listed(37, 1)
			lose(s)
			s.step(0, 0)
			s.listed(66, 0)
			s.step(0, upTo(66)...)
			s.listed(0, 0)
		})
	}
}

// TestWaveIsRecovered: a run that has ended and continues is listed once, whether or not its wave still
// exists.
func TestWaveIsRecovered(t *testing.T) {
	s := newSurf(t)
	s.step(40)
	again := s.before[4]
	s.step(0, 4)
	s.listed(0, 1)
	again.Generation = 2
	b := &store.Batch{Fences: s.fences}
	b.RunUpdates = []dag.RunUpdate{{RunRow: again, Was: dag.RunSucceeded}}
	if err := s.commit(b); err != nil {
		t.Fatal(err)
	}
	s.unfinished[again.ID] = true
	s.listed(1, 1)
	s.before = append(s.before, again)
	s.step(0, upTo(30)...)
	s.listed(10, 0)
	s.step(0, upTo(10)...)
	s.listed(0, 0)
}

// TestWavesByFormat: while a node that does not know waves is a member, every run has a row of its own.
func TestWavesByFormat(t *testing.T) {
	const before = 13
	s := newSurf(t)
	older := s.db
	h, err := older.Register(t.Context(), uuid.NewString(), "older")
	if err != nil {
		t.Fatal(err)
	}
	// The earlier node joins while the tables that its program knows exist.
	is, err := older.Info(t.Context())
	if err == nil {
		err = older.Join(t.Context(), store.Member{Handler: h.ID, UUID: h.UUID, Name: "older", State: store.MemberActive, Format: is.Known})
	}
	if err != nil {
		t.Fatal(err)
	}
	raw(t, s.schema)(fmt.Sprintf("%s; UPDATE meta SET format = %d, applied = %[2]d; UPDATE member SET format = %[2]d WHERE handler = %d", noWaves, before, h.ID))
	s.load = newLoad(t, open(t, s.options()), 0)
	s.step(20)
	s.listed(20, 0)
	if err := older.Leave(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	if is, err := s.db.Rise(t.Context()); err != nil || is <= before {
		t.Fatalf("format %d, %v", is, err)
	}
	s.takeAgain(t) // an era begins when the format has risen
	s.step(30, upTo(10)...)
	s.listed(10, 1)
	s.step(0, upTo(40)...)
	s.listed(0, 0)
}

// TestWavesDoNotWait: queued runs are listed one by one, in any number.
func TestWavesDoNotWait(t *testing.T) {
	s := newSurf(t)
	b := s.batch(20)
	for i := range b.RunInserts {
		b.RunInserts[i].State, b.AttemptInserts = dag.RunWaiting, nil
	}
	if err := s.commit(b); err != nil {
		t.Fatal(err)
	}
	if a, w := count(t, s.schema, "active"), count(t, s.schema, "wave"); a != 20 || w != 0 {
		t.Errorf("%d rows and %d waves", a, w)
	}
}

// TestWavesOfTwoShards: a batch ends a wave of one shard and starts one of another.
func TestWavesOfTwoShards(t *testing.T) {
	s := &surf{T: t, schema: newSchema(), unfinished: map[dag.RunID]bool{}}
	o := s.options()
	o.Shards = 2
	s.load = newLoad(t, open(t, o), 0, 1)
	s.step(20)
	goOn := slices.Clone(s.before)
	b := s.batch(20)
	for i := range b.RunInserts {
		b.RunInserts[i].Shard = 1
	}
	if err := s.commit(b); err != nil {
		t.Fatal(err)
	}
	for i := range goOn {
		delete(s.unfinished, goOn[i].ID)
	}
	if a, w := count(t, s.schema, "active"), count(t, s.schema, "wave WHERE shard = 1"); a != 0 || w != 1 || count(t, s.schema, "wave") != 1 {
		t.Errorf("%d rows and %d waves of the second shard", a, w)
	}
}
