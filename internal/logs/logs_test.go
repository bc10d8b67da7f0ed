package logs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/worker"
)

// attempt is a run with an attempt of a task, in a store.
func attempt(t *testing.T, st *memory.Store) Ref {
	t.Helper()
	got, err := st.Acquire(t.Context(), 1, []dag.ShardID{0})
	if err != nil {
		t.Fatal(err)
	}
	ref := Ref{Namespace: "default", Workflow: "w", Run: dag.RunID{1}, Task: 2, Name: "a", Token: 1}
	b := &store.Batch{Fences: []store.Fence{got[0].Fence}}
	b.RunInserts = []dag.RunRow{{Header: dag.Header{ID: ref.Run, Workflow: 1, Version: 1, Priority: dag.Medium, Created: 1}, State: dag.RunRunning}}
	b.AttemptInserts = []dag.AttemptRow{{Run: ref.Run, Task: ref.Task, Token: ref.Token, State: dag.AttemptRunning}}
	if _, err := st.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return ref
}

func read(t *testing.T, s Store, ref Ref) (text string, first int64) {
	t.Helper()
	r, err := s.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	size, err := r.Size()
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(io.NewSectionReader(r, r.First(0), size-r.First(0)))
	if err != nil {
		t.Fatal(err)
	}
	return string(all), r.First(0)
}

// Both kinds of store behave in the same way, except for the part of a log that they keep.
func TestStores(t *testing.T) {
	rows := memory.New(memory.Options{})
	ref := attempt(t, rows)
	for name, s := range map[string]Store{"database": NewDatabase(rows, 100<<10), "folder": Folder{t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			if _, err := s.Open(t.Context(), ref); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("nothing was printed: %v", err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			var all strings.Builder
			for all.Len() < 300<<10 {
				part := strings.Repeat(string(rune('a'+rng.IntN(26))), rng.IntN(70<<10))
				at := int64(all.Len())
				ends, err := s.Append(t.Context(), []Chunk{{Ref: ref, Offset: at, Data: []byte(part)}, {Ref: ref, Offset: at, Data: []byte("again")}})
				if err != nil {
					t.Fatal(err)
				}
				if part == "" {
					part = "again"
				}
				all.WriteString(part)
				if wanted := int64(all.Len()); ends[0] > wanted || ends[1] != wanted {
					t.Fatalf("ends %v, want %d", ends, wanted)
				}
			}
			text, first := read(t, s, ref)
			if text != all.String()[first:] || s.Keep() == 0 != (first == 0) || int64(len(text)) < s.Keep() {
				t.Errorf("%d of %d bytes from %d on", len(text), all.Len(), first)
			}
			if first > 0 {
				r, err := s.Open(t.Context(), ref)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := r.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("what is not kept: %v", err)
				}
			}
			if err := s.Delete(t.Context(), []Run{{"default", "w", ref.Run}}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Open(t.Context(), ref); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("deleted: %v", err)
			}
		})
	}
}

// Names that lead out of the folder are no names.
func TestFolderNames(t *testing.T) {
	f := Folder{t.TempDir()}
	ref := Ref{Namespace: "..", Workflow: "w", Name: "a", Token: 1}
	ends, err := f.Append(t.Context(), []Chunk{{Ref: ref, Data: []byte("x")}})
	if err != nil || ends[0] != -1 {
		t.Errorf("%v, %v", ends, err)
	}
	if _, err := f.Open(t.Context(), ref); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// printer writes a worker's file.
type printer struct {
	t    *testing.T
	path string
}

func newPrinter(t *testing.T, data string, ref Ref) printer {
	path := worker.LogPath(data, worker.Key{Namespace: ref.Namespace, Workflow: ref.Workflow, RunID: ref.Run.String(), Task: ref.Name, Attempt: int(ref.Token)})
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	return printer{t, path}
}

func (p printer) print(text string) {
	p.t.Helper()
	file, err := os.OpenFile(p.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := file.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		p.t.Fatal(err)
	}
}

func TestShipper(t *testing.T) {
	fails := false
	st := memory.New(memory.Options{Fault: func(op memory.Op) memory.Outcome {
		if fails && op.Kind == memory.LogsAfter {
			return memory.UnknownWritten
		}
		return memory.OK
	}})
	db, data := NewDatabase(st, KeepDefault), t.TempDir()
	ref := attempt(t, st)
	s := NewShipper(db, data, slog.New(slog.DiscardHandler))
	flush := func() {
		t.Helper()
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.Begin(ref)
	flush() // there is no file yet
	p := newPrinter(t, data, ref)
	p.print("one\n")
	flush()
	p.print("two\n")
	fails = true
	if err := s.Flush(t.Context()); err == nil {
		t.Error("a failure is no error")
	}
	if lag, dropped := s.Behind(); lag != int64(len("two\n")) || dropped != 0 {
		t.Errorf("%d bytes wait and %d are dropped", lag, dropped)
	}
	fails = false
	p.print("three\n")
	flush()
	if text, _ := read(t, db, ref); text != "one\ntwo\nthree\n" {
		t.Errorf("%q", text)
	}
	if lag, _ := s.Behind(); lag != 0 {
		t.Errorf("%d bytes wait", lag)
	}
	// The next process of the node continues at the end of the stored log.
	s = NewShipper(db, data, slog.New(slog.DiscardHandler))
	s.Begin(ref)
	p.print("four\n")
	flush()
	long := strings.Repeat("0123456789abcde\n", 200<<10) // 3.2 MB at once; only the end of it is stored
	p.print(long)
	p.print("end\n")
	s.End(ref, 1)
	s.Begin(ref) // a repeated Begin has no effect
	flush()
	text, first := read(t, db, ref)
	if whole := "one\ntwo\nthree\nfour\n" + long + "end\n"; text != whole[first:] || len(text) < KeepDefault || first == 0 {
		t.Errorf("%d bytes from %d on", len(text), first)
	}
	if !s.idle() || s.ended != 0 {
		t.Errorf("what has ended and was sent is still looked at: %d", s.ended)
	}
}

// Attempts that the store does not know, that print nothing, or that wait in too great numbers
// are not kept for ever.
func TestShipperForgets(t *testing.T) {
	st := memory.New(memory.Options{})
	ref := attempt(t, st)
	data := t.TempDir()
	s := NewShipper(NewDatabase(st, KeepDefault), data, slog.New(slog.DiscardHandler))
	stranger := ref
	stranger.Token = 9
	newPrinter(t, data, stranger).print("text")
	s.Begin(stranger)
	if err := s.Flush(t.Context()); err != nil || !s.idle() {
		t.Errorf("an attempt that is not there: %v", err)
	}
	s.Begin(ref)
	s.End(ref, 0)
	s.End(ref, 5)
	if !s.idle() {
		t.Error("an attempt that printed nothing")
	}
	for n := range endedMax + 10 {
		ref.Token = dag.Token(n + 1)
		s.Begin(ref)
		s.End(ref, 5)
	}
	if len(s.live) != endedMax {
		t.Errorf("%d wait", len(s.live))
	}
	if lag, dropped := s.Behind(); lag != 5*endedMax || dropped != 5*10 {
		t.Errorf("%d bytes wait and %d are dropped", lag, dropped)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(over) // returns, because the context has ended
	var none *Shipper
	none.Begin(ref)
	none.End(ref, 1)
	if err := none.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	none.Run(t.Context())
}
