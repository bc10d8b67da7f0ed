package segments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/blob/blobtest"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logindex"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/store"
)

// live keeps the last bytes of logs, as the database does.
type live struct {
	keep int64
	of   map[store.LogID]*end
}

type end struct {
	first int64
	data  []byte
}

func (l *live) Keep() int64 { return l.keep }

func (l *live) Append(_ context.Context, chunks []logs.Chunk) ([]int64, error) {
	ends := make([]int64, len(chunks))
	for i := range chunks {
		c := &chunks[i]
		e := l.of[c.ID()]
		if e == nil {
			e = new(end)
			l.of[c.ID()] = e
		}
		at := e.first + int64(len(e.data))
		if c.Offset > at && c.Cut {
			e.first, e.data, at = c.Offset, nil, c.Offset
		}
		if c.Offset == at {
			e.data = append(e.data, c.Data...)
		}
		if n := int64(len(e.data)); n > l.keep {
			e.first, e.data = e.first+n-l.keep, e.data[n-l.keep:]
		}
		ends[i] = e.first + int64(len(e.data))
	}
	return ends, nil
}

func (l *live) Open(_ context.Context, ref logs.Ref) (logs.Reader, error) {
	e := l.of[ref.ID()]
	if e == nil {
		return nil, fs.ErrNotExist
	}
	return e, nil
}

func (l *live) Delete(context.Context, []logs.Run) error { return nil }

func (e *end) Size() (int64, error) { return e.first + int64(len(e.data)), nil }

func (e *end) First(at int64) int64 { return max(at, e.first) }

func (e *end) Close() error { return nil }

func (e *end) ReadAt(p []byte, off int64) (int, error) {
	if off < e.first {
		return 0, fs.ErrNotExist
	}
	return bytes.NewReader(e.data).ReadAt(p, off-e.first)
}

var run = dag.RunID{1}

var ref = logs.Ref{Namespace: "default", Workflow: "w", Run: run, Task: 3, Name: "a", Token: 2}

func newLive(keep int64) *live { return &live{keep, map[store.LogID]*end{}} }

func newStore(t *testing.T, blobs blob.Store, l logs.Store) *Store {
	return New(blobs, l, t.TempDir(), slog.New(slog.DiscardHandler))
}

// printed appends bytes at an offset.
func printed(t *testing.T, s logs.Store, at int64, data string) {
	t.Helper()
	ends, err := s.Append(t.Context(), []logs.Chunk{{Ref: ref, Offset: at, Data: []byte(data)}})
	if err != nil || ends[0] != at+int64(len(data)) {
		t.Fatalf("%v %v", ends, err)
	}
}

// whole reads a log from its first byte that is kept.
func whole(t *testing.T, s logs.Store) string {
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
	first := r.First(0)
	text, err := io.ReadAll(io.NewSectionReader(r, first, size-first))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func sizes(t *testing.T, blobs blob.Store) (all []string) {
	t.Helper()
	list, err := blobs.List(t.Context(), root, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, is := range list {
		at, _ := offsetOf(is.Key)
		all = append(all, fmt.Sprint(at, "+", is.Size))
	}
	return all
}

// TestSegments: a log that is stored in segments is complete, even if the live end keeps few bytes or has
// gone.
func TestSegments(t *testing.T) {
	check := func(t *testing.T, blobs blob.Store) {
		l := newLive(1000)
		s := newStore(t, blobs, l)
		var want strings.Builder
		line := strings.Repeat("0123456789", 10_000)
		for i := range 45 { // 4.5 MB
			printed(t, s, int64(want.Len()), line)
			want.WriteString(line)
			if i == 40 && len(sizes(t, blobs)) != 0 {
				t.Error("a segment is written before 4 MiB or 30 s have come")
			}
		}
		if err := s.seal(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		s.Ended(ref)
		if err := s.seal(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if got := sizes(t, blobs); !slices.Equal(got, []string{fmt.Sprint("0+", sizeMax), fmt.Sprint(sizeMax, "+", want.Len()-sizeMax)}) {
			t.Errorf("%v", got)
		}
		if whole(t, s) != want.String() {
			t.Error("another log with its live end")
		}
		if whole(t, newStore(t, blobs, newLive(1000))) != want.String() {
			t.Error("another log without its live end")
		}
		if s.held != 0 {
			t.Errorf("%d bytes stay in memory", s.held)
		}
		if s.choose(false); len(s.tails) != 0 {
			t.Error("an ended log is remembered")
		}
		runs := []logs.Run{{Namespace: "default", Workflow: "w", ID: run}}
		for range 2 {
			if err := s.Delete(t.Context(), runs); err != nil {
				t.Fatal(err)
			}
		}
		if got := sizes(t, blobs); len(got) != 0 {
			t.Errorf("deleted: %v", got)
		}
		if _, err := newStore(t, blobs, newLive(1)).Open(t.Context(), ref); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	}
	t.Run("folder", func(t *testing.T) { check(t, blobtest.Folder{Path: t.TempDir()}) })
	t.Run("s3", func(t *testing.T) { check(t, blobtest.Serve(t).Open(t, blobtest.Prefix(t), "")) })
}

// hanging is a store of objects that does not answer.
type hanging struct{ blob.Store }

func (hanging) List(ctx context.Context, _, _ string, _ int) ([]blob.Info, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hanging) Open(ctx context.Context, _ string, _, _ int64) (io.ReadCloser, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hanging) Put(ctx context.Context, _ string, _ io.ReaderAt, _ int64, _ blob.PutOptions) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestHangingStore: while the store of objects hangs, readers of its segments get an error after answerMax.
// Logs with a live end are written and read without a wait.
func TestHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blobs, l := blobtest.Folder{Path: t.TempDir()}, newLive(100)
		s := newStore(t, blobs, l)
		printed(t, s, 0, strings.Repeat("x", 200))
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.blobs = hanging{blobs}
		began := time.Now()
		printed(t, s, 200, "end")
		r, err := s.Open(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 3)
		if _, err := r.ReadAt(text, 200); err != nil || string(text) != "end" || s.Waiting() != 1 {
			t.Errorf("%q, %v, %d wait", text, err, s.Waiting())
		}
		if time.Since(began) != 0 {
			t.Errorf("the live end waited for %v", time.Since(began))
		}
		if _, err := r.ReadAt(text, 0); !errors.Is(err, errSlow) || time.Since(began) != answerMax {
			t.Errorf("a list: %v after %v", err, time.Since(began))
		}
		listed := &reader{ctx: t.Context(), blobs: s.blobs, prefix: "p/", parts: []part{{"p/0", 0, 9}}}
		if _, err := listed.ReadAt(text, 0); !errors.Is(err, errSlow) || time.Since(began) != 2*answerMax {
			t.Errorf("a segment: %v after %v", err, time.Since(began))
		}
		if _, err := listed.Index(); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*answerMax {
			t.Errorf("an index: %v after %v", err, time.Since(began))
		}
		if _, err := newStore(t, s.blobs, newLive(1)).Open(t.Context(), ref); !errors.Is(err, errSlow) || time.Since(began) != 4*answerMax {
			t.Errorf("a log without a live end: %v after %v", err, time.Since(began))
		}
		s.blobs = blobs
		if err := s.Flush(t.Context()); err != nil || s.Waiting() != 0 {
			t.Errorf("%v, %d wait", err, s.Waiting())
		}
	})
}

// TestOfFiles: a log whose file is on this machine needs no memory, and none of it is skipped.
func TestOfFiles(t *testing.T) {
	blobs, data := blobtest.Folder{Path: t.TempDir()}, t.TempDir()
	files := logs.Folder{Path: data}
	s := New(blobs, files, data, slog.New(slog.DiscardHandler))
	text := string(blobtest.Random(sizeMax + 5))
	printed(t, s, 0, text)
	if s.held != 0 {
		t.Errorf("%d bytes in memory", s.held)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := sizes(t, blobs); len(got) != 2 || whole(t, newStore(t, blobs, newLive(1))) != text {
		t.Errorf("%v", got)
	}
}

// TestAgain: another process, or another node, continues where the segments end. Two at once write each byte
// once, and what exists is never written again.
func TestAgain(t *testing.T) {
	blobs, l := blobtest.Folder{Path: t.TempDir()}, newLive(100)
	a := newStore(t, blobs, l)
	printed(t, a, 0, "one ")
	if err := a.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	printed(t, a, 4, "two ") // and this process dies: only the live end has it
	b := newStore(t, blobs, l)
	printed(t, b, 8, "three ")
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	printed(t, a, 14, "four") // the first process still runs
	for _, s := range []*Store{a, b, a} {
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := whole(t, newStore(t, blobs, newLive(1))); got != "one two three four" {
		t.Errorf("%q of %v", got, sizes(t, blobs))
	}
}

// TestLost: bytes that no copy has any more are a gap. Readers continue after the gap.
func TestLost(t *testing.T) {
	blobs, l := blobtest.Folder{Path: t.TempDir()}, newLive(10)
	a := newStore(t, blobs, l)
	printed(t, a, 0, "kept")
	if err := a.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	printed(t, a, 4, strings.Repeat("x", 100)) // the process dies
	b := newStore(t, blobs, l)
	printed(t, b, 104, "end")
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, blobs, newLive(1))
	r, err := s.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 4)
	if n, err := r.ReadAt(p, 0); n != 4 || err != nil || string(p) != "kept" {
		t.Errorf("%q %v", p[:n], err)
	}
	if _, err := r.ReadAt(p, 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	first := r.First(4)
	p = make([]byte, 107-first)
	if n, err := r.ReadAt(p, first); err != nil || !strings.HasSuffix(string(p[:n]), "xend") || len(p) > 13 {
		t.Errorf("from %d: %q %v", first, p[:n], err)
	}
}

// TestAway: while the object store does not answer, the live end keeps growing, and memory stays bounded.
// Later all segments are written.
func TestAway(t *testing.T) {
	server := blobtest.Serve(t)
	proxy := blobtest.NewProxy(t, server, func(int, *http.Request) blobtest.Fault { return blobtest.Cut })
	blobs := server.Open(t, blobtest.Prefix(t), proxy.Address)
	s := newStore(t, blobs, newLive(1<<20))
	printed(t, s, 0, "first ")
	if err := s.Flush(t.Context()); err == nil {
		t.Error("it was written while the store is away")
	}
	printed(t, s, 6, "second")
	if got := whole(t, s); got != "first second" {
		t.Errorf("%q", got)
	}
	proxy.Choose(blobtest.Some())
	if err := s.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	proxy.Choose(nil)
	if got := whole(t, newStore(t, blobs, newLive(1))); got != "first second" {
		t.Errorf("%q of %v", got, sizes(t, blobs))
	}
}

// TestBounds: the memory for logs without files here is bounded.
func TestBounds(t *testing.T) {
	s := newStore(t, blobtest.Folder{Path: t.TempDir()}, newLive(10))
	chunk := strings.Repeat("x", 1<<20)
	for i := range int64(3 * heldMax >> 20) {
		printed(t, s, i<<20, chunk)
		if s.held > 2*heldMax {
			t.Fatalf("%d bytes", s.held)
		}
	}
	for name, bad := range map[string]logs.Ref{"slash": {Namespace: "default", Workflow: "w", Name: "a/b", Token: 1}, "up": {Namespace: "..", Workflow: "w", Name: "a", Token: 1}} {
		if _, err := s.Open(t.Context(), bad); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSweep: segments of runs that are gone are deleted once they are old.
func TestSweep(t *testing.T) {
	blobs := blobtest.Folder{Path: t.TempDir()}
	for _, run := range []string{"r1", "r2"} {
		for i := range 3 {
			blobtest.Put(t, blobs, fmt.Sprintf("%sa.1/%020d", runFolder("default", "w", run), i), "x")
		}
	}
	w := NewSweeper(newStore(t, blobs, newLive(1)))
	gone := func(_ context.Context, run string) (bool, error) { return run == "r1", nil }
	if err := w.sweep(t.Context(), time.Now(), gone); err != nil || len(blobtest.Keys(t, blobs, root)) != 6 {
		t.Errorf("young: %v", err)
	}
	if err := w.sweep(t.Context(), time.Now().Add(strayMax+time.Hour), gone); err != nil || len(blobtest.Keys(t, blobs, root)) != 3 {
		t.Errorf("%v %q", err, blobtest.Keys(t, blobs, root))
	}
}

// TestIndex: the index of a log that has ended is stored next to its segments, also if the object store does
// not answer at first. The index does not disturb the reading of segments.
func TestIndex(t *testing.T) {
	blobs := &away{Store: blobtest.Folder{Path: t.TempDir()}}
	data := t.TempDir()
	files := logs.Folder{Path: data}
	s := New(blobs, files, data, slog.New(slog.DiscardHandler))
	printed(t, s, 0, strings.Repeat("a line\n", logindex.From/7+1))
	s.Ended(ref)
	at, err := files.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	if err := at.(logs.Indexed).PutIndex([]byte("records")); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context()); !errors.Is(err, errAway) {
		t.Fatal(err)
	}
	blobs.back.Store(true)
	if err := s.Flush(t.Context()); err != nil || s.waiting() && s.Flush(t.Context()) != nil {
		t.Fatal(err)
	}
	r, err := newStore(t, blobs, newLive(1)).Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.(logs.Indexed).Index(); string(got) != "records" {
		t.Errorf("%q: %v", got, err)
	}
	if size, err := r.Size(); err != nil || size != logindex.From/7*7+7 {
		t.Errorf("%d bytes: %v", size, err)
	}
	if err := r.(logs.Indexed).PutIndex([]byte("made again")); err != nil {
		t.Fatal(err)
	}
	if got, err := r.(logs.Indexed).Index(); string(got) != "made again" {
		t.Errorf("%q: %v", got, err)
	}
	if err := s.Delete(t.Context(), []logs.Run{{Namespace: "default", Workflow: "w", ID: run}}); err != nil || len(sizes(t, blobs)) != 0 {
		t.Errorf("%v: %v", sizes(t, blobs), err)
	}
}
