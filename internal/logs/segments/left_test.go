package segments

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/blob/blobtest"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logs"
)

// away is a store of objects that does not answer, until it is back.
type away struct {
	blob.Store
	back  atomic.Bool
	calls atomic.Int64
}

var errAway = errors.New("the store is away")

func (a *away) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	if a.calls.Add(1); !a.back.Load() {
		return nil, errAway
	}
	return a.Store.List(ctx, prefix, after, limit)
}

func (a *away) Put(ctx context.Context, key string, content io.ReaderAt, size int64, o blob.PutOptions) error {
	if a.calls.Add(1); !a.back.Load() {
		return errAway
	}
	return a.Store.Put(ctx, key, content, size, o)
}

// TestLeft: a process ends while the objects are away. The next one writes what it has left in the files as
// soon as the objects are back, and it writes nothing twice.
func TestLeft(t *testing.T) {
	blobs, data := &away{Store: blobtest.Folder{Path: t.TempDir()}}, t.TempDir()
	files := logs.Folder{Path: data}
	first := New(blobs, files, data, slog.New(slog.DiscardHandler))
	blobs.back.Store(true)
	printed(t, first, 0, "one ")
	if err := first.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	blobs.back.Store(false)
	printed(t, first, 4, "two")
	first.Ended(ref)
	if err := first.Flush(t.Context()); !errors.Is(err, errAway) {
		t.Fatal(err)
	}
	next := New(blobs, files, data, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for blobs.calls.Load() < 6 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		blobs.back.Store(true)
	}()
	(&left{s: next, pause: time.Millisecond}).run(ctx)
	if got := whole(t, newStore(t, blobs, newLive(1))); got != "one two" {
		t.Errorf("%q of %v", got, sizes(t, blobs))
	}
	before := blobs.calls.Load()
	(&left{s: next, pause: time.Millisecond}).run(ctx)
	if n := blobs.calls.Load() - before; n != 1 || len(sizes(t, blobs)) != 2 {
		t.Errorf("%d requests for a log that has its segments: %v", n, sizes(t, blobs))
	}
	if old := logsIn(data+"/logs/default/w/"+run.String(), time.Now().Add(time.Hour)); len(old) != 0 {
		t.Errorf("%d old logs are looked at", len(old))
	}
}

// TestRoundEnds: if the objects are away, a round tries a few logs only, however many wait.
func TestRoundEnds(t *testing.T) {
	blobs := &away{Store: blobtest.Folder{Path: t.TempDir()}}
	s := newStore(t, blobs, newLive(100))
	const all = 500
	for i := range all {
		of := ref
		of.Token = dag.Token(i + 1)
		if _, err := s.Append(t.Context(), []logs.Chunk{{Ref: of, Data: []byte("text")}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(t.Context()); !errors.Is(err, errAway) || blobs.calls.Load() > 4*atOnce || !s.failing {
		t.Errorf("%d calls: %v", blobs.calls.Load(), err)
	}
	blobs.back.Store(true)
	if err := s.Flush(t.Context()); err != nil || len(blobtest.Keys(t, blobs.Store, root)) != all || s.failing {
		t.Errorf("%d of %d: %v", len(blobtest.Keys(t, blobs.Store, root)), all, err)
	}
}
