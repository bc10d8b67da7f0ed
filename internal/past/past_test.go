package past

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// told is a store of two shards whose marks a test decides, and a server's lineage.
type told struct {
	*memory.Store
	marks   []store.Fence
	lineage store.Lineage
	ended   []store.Fence // the marks at the end of the era before a quiet one
	known   dag.Era
	quietly []store.Fence // before the next raise of the era, a quiet era begins with these marks
}

func (s *told) Lineage(context.Context) (store.Lineage, error) { return s.lineage, nil }
func (s *told) Know(era dag.Era)                               { s.known = era }
func (s *told) Marks(context.Context) ([]store.Fence, error)   { return s.marks, nil }
func (s *told) EndOf(_ context.Context, era dag.Era) ([]store.Fence, error) {
	if era >= store.EraOf(s.marks) {
		return nil, nil
	}
	return s.ended, nil
}
func (s *told) Raise(_ context.Context, from, to dag.Era, _ []byte) (dag.Era, error) {
	if s.quietly != nil {
		s.ended, s.marks, s.quietly = s.marks, s.quietly, nil
	}
	if is := store.EraOf(s.marks); is != from || to == from && store.FloorOf(s.marks) == to {
		return is, nil
	}
	for i := range s.marks {
		if s.marks[i].Epoch = int64(to) * store.EpochsOfEra; to == from {
			s.marks[i].Epoch = store.EpochOf(to, to)
		}
	}
	return to, nil
}

func marks(epoch, seq, epoch2, seq2 int64) []store.Fence {
	return []store.Fence{{Shard: 0, Epoch: epoch, Seq: seq}, {Shard: 1, Epoch: epoch2, Seq: seq2}}
}

const era1 = store.EpochsOfEra

// TestRegress: a node compares the marks that were confirmed with the marks that it reads, also after a
// restart. The era rises once each time the store goes back.
func TestRegress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		confirmed []store.Fence
		read      []store.Fence
		back      bool
		era       dag.Era
	}{
		"nothing was known":            {nil, marks(3, 40, 2, 7), false, 0},
		"the same":                     {marks(3, 40, 2, 7), marks(3, 40, 2, 7), false, 0},
		"more":                         {marks(3, 40, 2, 7), marks(4, 40, 2, 9), false, 0},
		"a transaction less":           {marks(3, 40, 2, 7), marks(3, 39, 2, 7), true, 1},
		"of an idle shard":             {marks(3, 40, 2, 7), marks(3, 40, 2, 6), true, 1},
		"taken less often":             {marks(3, 40, 2, 7), marks(2, 40, 2, 7), true, 1},
		"taken again, after less":      {marks(3, 40, 2, 7), marks(9, 30, 2, 7), true, 1},
		"another has raised the era":   {marks(3, 40, 2, 7), marks(era1, 30, era1, 7), false, 1},
		"an older era":                 {marks(era1+1, 5, era1, 7), marks(8, 90, 9, 90), true, 2},
		"an earlier state of that era": {marks(era1+1, 5, era1, 7), marks(era1+1, 4, era1, 7), true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &told{Store: memory.New(memory.Options{Shards: 2}), marks: c.read}
			cfg := Config{Store: s, Cluster: "x", File: filepath.Join(t.TempDir(), "past.json")}
			before := Open(cfg)
			before.Confirm(c.confirmed)
			if err := before.Save(); err != nil {
				t.Fatal(err)
			}
			risen := 0
			cfg.Back = func(dag.Era) { risen++ }
			p := Open(cfg)
			back, err := p.Check(t.Context())
			if err != nil || back != c.back || store.EraOf(s.marks) != c.era {
				t.Errorf("it has gone back: %v, %v; era %d, want %v in era %d", back, err, store.EraOf(s.marks), c.back, c.era)
			}
			if want := min(int(c.era), 1); risen != want {
				t.Errorf("it was told %d times, want %d", risen, want)
			}
			if known, _, err := Known(cfg.File); c.back && (err != nil || len(known) != 1 || known[0].Era != c.era) {
				t.Errorf("the file knows of %v, %v", known, err)
			}
			if back, err := p.Check(t.Context()); back || err != nil {
				t.Errorf("and once more: %v, %v", back, err)
			}
		})
	}
}

// quiet is the first epoch of era 1 if it began without a loss.
var quiet = store.EpochOf(1, 0)

// TestQuietEra: a store can begin an era by itself. A node compares what it remembers with the end of the era
// that it knows, and not with later marks. If a mark was lost before that end, the floor rises, and no
// further era begins.
func TestQuietEra(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ended, read []store.Fence
		during      bool // the era begins while this node raises it
		back        bool
	}{
		"nothing was lost":                      {marks(3, 40, 2, 7), marks(quiet, 40, quiet, 7), false, false},
		"more is there":                         {marks(3, 40, 2, 9), marks(quiet+1, 60, quiet+1, 9), false, false},
		"a transaction was lost":                {marks(3, 39, 2, 7), marks(quiet, 39, quiet, 7), false, true},
		"lost, and others were written since":   {marks(3, 39, 2, 7), marks(quiet+2, 60, quiet+1, 70), false, true},
		"the era begins while a node raises it": {marks(3, 39, 2, 7), marks(quiet, 39, quiet, 7), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &told{Store: memory.New(memory.Options{Shards: 2}), marks: c.read, ended: c.ended}
			if c.during {
				s.marks, s.quietly = c.ended, c.read
			}
			floor := dag.Era(0)
			cfg := Config{Store: s, Cluster: "x", File: filepath.Join(t.TempDir(), "past.json"), Back: func(is dag.Era) { floor = is }}
			p := Open(cfg)
			p.Confirm(marks(3, 40, 2, 7))
			back, err := p.Check(t.Context())
			if want := map[bool]dag.Era{true: 1}[c.back]; err != nil || back != c.back || store.FloorOf(s.marks) != want || floor != want {
				t.Errorf("it has gone back: %v, %v; the floor is %d, and it was told %d; want %v and floor %d", back, err, store.FloorOf(s.marks), floor, c.back, want)
			}
			if era := store.EraOf(s.marks); era != 1 {
				t.Errorf("the database is in era %d", era)
			}
			if err := p.Save(); err != nil {
				t.Fatal(err)
			}
			p = Open(cfg)
			if is := p.is.floor(); is != floor || p.is.Era != 1 {
				t.Errorf("the next process knows era %d with floor %d", p.is.Era, is)
			}
			if back, err := p.Check(t.Context()); back || err != nil {
				t.Errorf("and once more: %v, %v", back, err)
			}
			s.marks[0].Seq-- // it goes back within the new era
			if back, err := p.Check(t.Context()); !back || err != nil || store.FloorOf(s.marks) != 2 {
				t.Errorf("within the new era: %v, %v, floor %d", back, err, store.FloorOf(s.marks))
			}
		})
	}
}

// TestLineageAcrossAQuietEra: a promotion begins an era quietly, and its server lacks a position that was
// confirmed. The loss came before that era, so its floor rises.
func TestLineageAcrossAQuietEra(t *testing.T) {
	t.Parallel()
	s := &told{Store: memory.New(memory.Options{}), marks: marks(1, 10, 1, 10)}
	cfg := Config{Store: s, Cluster: "x", File: filepath.Join(t.TempDir(), "past.json")}
	p := Open(cfg)
	p.Confirm(s.marks)
	p.is.Lineage = store.Lineage{System: "a", Timeline: 1, Position: 500}
	s.ended, s.marks = s.marks, marks(quiet, 10, quiet, 10)
	p.Confirm(s.marks)
	if err := p.Save(); err != nil {
		t.Fatal(err)
	}
	if p = Open(cfg); s.known != 1 { // the position is still of era 0
		t.Errorf("the store was told of era %d", s.known)
	}
	s.lineage = store.Lineage{System: "a", Timeline: 2, Position: 900, Replayed: 499}
	if back, err := p.Check(t.Context()); !back || err != nil || store.EraOf(s.marks) != 1 || store.FloorOf(s.marks) != 1 {
		t.Errorf("it has gone back: %v, %v; marks %v", back, err, s.marks)
	}
}

// TestReadingOfAStandby: a reading lacks confirmed marks, because it comes from a standby that has not
// replayed all. The next reading has all of it, so no era begins, and the rows must be read again.
func TestReadingOfAStandby(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		is, ended []store.Fence
		lost      bool
	}{
		"the same era":           {is: marks(1, 10, 1, 10)},
		"a quiet era":            {is: marks(quiet, 10, quiet, 10), ended: marks(1, 10, 1, 10)},
		"a quiet era after less": {is: marks(quiet, 90, quiet, 90), ended: marks(1, 9, 1, 10), lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &told{Store: memory.New(memory.Options{}), marks: c.is, ended: c.ended}
			was := store.EraOf(c.is)
			p := Open(Config{Store: s})
			p.Confirm(marks(1, 10, 1, 10))
			back, err := p.Look()(t.Context(), marks(1, 9, 1, 10))
			if back != c.lost || (err != nil) == c.lost || !c.lost && !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("it has gone back: %v, %v", back, err)
			}
			if want := map[bool]dag.Era{true: 1}[c.lost]; store.FloorOf(s.marks) != want || store.EraOf(s.marks) != was {
				t.Errorf("the marks are %v", s.marks)
			}
		})
	}
}

// TestLookIsOfBefore: marks that are confirmed during a reading are not compared with that reading.
func TestLookIsOfBefore(t *testing.T) {
	t.Parallel()
	s := &told{Store: memory.New(memory.Options{}), marks: marks(1, 10, 1, 10)}
	p := Open(Config{Store: s})
	p.Confirm(s.marks)
	look := p.Look()
	p.Confirm(marks(1, 11, 1, 10))
	if back, err := look(t.Context(), marks(1, 10, 1, 10)); back || err != nil {
		t.Errorf("it has gone back: %v, %v", back, err)
	}
	s.marks = marks(1, 10, 1, 10)
	if back, err := p.Look()(t.Context(), s.marks); !back || err != nil {
		t.Errorf("it has not gone back: %v, %v", back, err)
	}
}

// TestLineage: a promoted server that lacks a confirmed position has gone back, although each shard has
// advanced since.
func TestLineage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		is   store.Lineage
		back bool
	}{
		"the same server":                           {store.Lineage{System: "a", Timeline: 1, Position: 900}, false},
		"promoted, with all of it":                  {store.Lineage{System: "a", Timeline: 2, Position: 900, Replayed: 500}, false},
		"promoted, with less":                       {store.Lineage{System: "a", Timeline: 2, Position: 900, Replayed: 499}, true},
		"promoted, and started again since":         {store.Lineage{System: "a", Timeline: 2, Position: 900}, false},
		"filled from a dump: positions say nothing": {store.Lineage{System: "b", Timeline: 2, Position: 900, Replayed: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &told{Store: memory.New(memory.Options{}), marks: marks(1, 10, 1, 10)}
			p := Open(Config{Store: s})
			p.is.Lineage = store.Lineage{System: "a", Timeline: 1, Position: 500}
			s.lineage, s.marks = c.is, marks(2, 20, 2, 20)
			if back, err := p.Check(t.Context()); back != c.back || err != nil {
				t.Errorf("it has gone back: %v, %v", back, err)
			}
		})
	}
}

// TestLineageOfSureCommits counts a position of the server's log as confirmed only if a commit that was sent
// after the position was read has been confirmed on the same timeline.
func TestLineageOfSureCommits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sure  time.Duration // since the position was read
		again bool          // the old server is read again after that
		back  bool
	}{
		"a later commit":                       {time.Hour, true, true},
		"no later commit":                      {-time.Hour, true, false},
		"a later commit, of the next server":   {time.Hour, false, false},
		"no later commit, and another reading": {-time.Hour, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sure := time.Time{}
			s := &told{Store: memory.New(memory.Options{}), marks: marks(1, 10, 1, 10)}
			p := Open(Config{Store: s, Sure: func() time.Time { return sure }})
			check := func(is store.Lineage, want bool) {
				t.Helper()
				s.lineage = is
				if back, err := p.Check(t.Context()); back != want || err != nil {
					t.Errorf("the database went back: %v, %v, want %v", back, err, want)
				}
			}
			check(store.Lineage{System: "a", Timeline: 1, Position: 500}, false)
			sure = time.Now().Add(c.sure)
			if c.again {
				check(store.Lineage{System: "a", Timeline: 1, Position: 600}, false)
			}
			s.marks = marks(2, 20, 2, 20)
			check(store.Lineage{System: "a", Timeline: 2, Position: 900, Replayed: 499}, c.back)
		})
	}
}

// TestDamagedFile: a damaged file does not prevent a node from starting, and the file of another database has
// no effect.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "past.json")
	s := &told{Store: memory.New(memory.Options{}), marks: marks(1, 1, 1, 1)}
	for _, text := range []string{"{", `{"cluster":"other","era":9,"shards":[{"epoch":99,"seq":99}]}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p := Open(Config{Store: s, Cluster: "x", File: file})
		if back, err := p.Check(t.Context()); back || err != nil {
			t.Errorf("%s: it has gone back: %v, %v", text, back, err)
		}
		if err := p.Save(); err != nil {
			t.Error(err)
		}
		if _, there, err := Known(file); !there || err != nil {
			t.Errorf("%s: the file was not written: %v", text, err)
		}
	}
}
