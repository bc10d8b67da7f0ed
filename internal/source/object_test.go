package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/blob/blobtest"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/workflow"
)

func bucket(t *testing.T, ordered bool) (put func(key, content string), open func() Source) {
	t.Helper()
	s := blobtest.Serve(t)
	store := s.Open(t, blobtest.Prefix(t), "")
	config := &workflow.Objects{URL: "s3://orders", Prefix: "in/", Pattern: "*.csv", Every: workflow.Duration(10 * time.Millisecond), Ordered: ordered}
	return func(key, content string) { blobtest.Put(t, store, key, content) },
		func() Source { return &Objects{Config: config, In: Bucket{store}, Start: Start{Since: began}} }
}

// began is the time of the trigger: after the objects that exist at the beginning, and before those that the
// tests add.
var began = time.Now().Add(-time.Hour)

// TestObjects: each new object is one event, and each change of an object's content, too, even if a process
// dies.
func TestObjects(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		t.Run(fmt.Sprint(ordered), func(t *testing.T) {
			put, open := bucket(t, ordered)
			l := newLedger()
			l.after = func(n int) error {
				if n%2 == 1 {
					return errDied
				}
				return nil
			}
			l.running(t, open)
			for n := range 30 {
				put(fmt.Sprintf("in/%03d.csv", n), "x")
			}
			put("in/z.txt", "no")
			put("out/1.csv", "no")
			put("in/deep/1.csv", "no")
			l.until(t, "all come", func() bool { return len(l.values) == 30 })
			if l.again != 0 || !strings.HasPrefix(l.values[29], `{"url":"s3://orders/in/029.csv","key":"in/029.csv","name":"029.csv","size":1,"modified":"20`) {
				t.Errorf("%d again, %s", l.again, l.values[29])
			}
			want := 31
			if put("in/zz.csv", "x"); !ordered {
				put("in/003.csv", "other")
				want = 32
			}
			l.until(t, "the changed one comes", func() bool { return len(l.values) == want })
		})
	}
}

// TestObjectsBefore: an object that is older than the trigger is no event.
func TestObjectsBefore(t *testing.T) {
	defer func(is time.Duration) { settleMax = is }(settleMax)
	settleMax = 0
	for _, ordered := range []bool{false, true} {
		dir := t.TempDir()
		file := func(name string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		file("a")
		file("b")
		folder := &Folder{Path: dir}
		l := newLedger()
		stop := l.running(t, func() Source {
			return &Objects{Config: &workflow.Objects{URL: "file://" + dir, Every: workflow.Duration(10 * time.Millisecond), Ordered: ordered}, In: folder, Start: Start{Since: time.Now().Add(time.Hour)}}
		})
		l.until(t, "begins", func() bool { return l.cursor != nil })
		file("c")
		l.until(t, "it comes", func() bool { return len(l.values) == 1 })
		if !strings.Contains(l.values[0], `"name":"c"`) {
			t.Errorf("%q", l.values)
		}
		_ = stop()
	}
}

// TestFolder: links, hidden, protected and young files are not listed, and keys come in their order.
func TestFolder(t *testing.T) {
	dir, secret := t.TempDir(), t.TempDir()
	for _, name := range []string{"in/a.csv", "in/b/c.csv", "in/a", ".hidden/x", "in/.part", "keys/k", "other"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"in/link": "/etc/passwd", "in/dir": secret} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	list := func(f *Folder, prefix, after string) (keys []string) {
		err := f.Each(t.Context(), prefix, after, func(page []blob.Info) error {
			for i := range page {
				keys = append(keys, page[i].Key)
			}
			return nil
		})
		if err != nil {
			keys = []string{err.Error()}
		}
		return keys
	}
	f := &Folder{Path: dir, Protected: []string{filepath.Join(dir, "keys")}}
	if got := list(f, "", ""); len(got) != 0 {
		t.Errorf("young files are listed: %q", got)
	}
	defer func(is time.Duration) { settleMax = is }(settleMax)
	settleMax = 0
	if got := list(f, "", ""); !slices.Equal(got, []string{"in/a", "in/a.csv", "in/b/c.csv", "other"}) {
		t.Errorf("%q", got)
	}
	if got := list(f, "in/", "in/a"); !slices.Equal(got, []string{"in/a.csv", "in/b/c.csv"}) {
		t.Errorf("%q", got)
	}
	if got := list(&Folder{Path: filepath.Join(dir, "keys"), Protected: f.Protected}, "", ""); len(got) != 1 || !strings.Contains(got[0], "no trigger may watch") {
		t.Errorf("%q", got)
	}
	if got := list(&Folder{Path: filepath.Join(dir, "nothing")}, "", ""); len(got) != 1 || !strings.Contains(got[0], "cannot be read") {
		t.Errorf("%q", got)
	}
}

// TestSeen: if there are more events than a cursor lists, the oldest are removed from the cursor, and no
// event is passed on a second time because of that.
func TestSeen(t *testing.T) {
	s := seen{marks: map[mark]workflow.Position{}}
	at := func(n int) workflow.Position { return workflow.Position{Number: float64(n), Int: int64(n)} }
	for n := range 3 * seenMax {
		sum := sumOf(fmt.Sprint(n))
		s.marks[mark(sum[:6])] = at(n / 3)
		s.shrink()
	}
	if len(s.marks) > seenMax || len(s.marks) < seenMax-3 || !s.below(at(3*seenMax/3-seenMax/3-2)) || s.below(at(seenMax)) {
		t.Errorf("%d, %+v", len(s.marks), s.floor)
	}
	text, err := memory{Of: "x"}.pack(&s)
	if err != nil || len(text) > 15<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	_, again, known, err := readMemory(text, "x")
	if err != nil || !known || len(again.marks) != len(s.marks) || *again.floor != *s.floor {
		t.Errorf("%v %v", known, err)
	}
	if _, _, known, err := readMemory(text, "y"); known || err != nil {
		t.Errorf("another place: %v %v", known, err)
	}
	for _, bad := range []string{"4711", "{}", `{"of":"x","seen":"A"}`, "["} {
		if _, _, _, err := readMemory([]byte(bad), "x"); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// liar is a store that lists the same objects for every request.
type liar struct {
	blob.Store
	all []blob.Info
}

func (l *liar) List(context.Context, string, string, int) ([]blob.Info, error) { return l.all, nil }

func many(n, length int) (all []blob.Info) {
	for i := range n {
		all = append(all, blob.Info{Key: fmt.Sprintf("%0*d", length, i), ETag: "e", Size: 1, Modified: time.Now()})
	}
	return all
}

// TestLyingStore: if a store ignores start-after, the source ends with an error. Without this check, the list
// would never end.
func TestLyingStore(t *testing.T) {
	for _, c := range []struct {
		ordered bool
		n       int
	}{{true, blob.PageMax}, {true, 3}, {false, blob.PageMax}} {
		given := 0
		o := &Objects{Config: &workflow.Objects{URL: "s3://b", Every: workflow.Duration(time.Millisecond), Ordered: c.ordered}, Start: Start{Beginning: true}, In: Bucket{&liar{all: many(c.n, 8)}}}
		err := o.Run(t.Context(), nil, func(_ context.Context, b Batch) error { given += len(b.Events); return nil })
		if !errors.Is(err, errOrder) || given > blob.PageMax {
			t.Errorf("%+v: %d events, %v", c, given, err)
		}
	}
}

// TestLongKeys: objects with long keys are passed on in batches that the engine accepts.
func TestLongKeys(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		given := 0
		o := &Objects{Config: &workflow.Objects{URL: "s3://b", Every: workflow.Duration(time.Hour), Ordered: ordered}, Start: Start{Beginning: true}, In: Bucket{&liar{all: many(900, 2000)}}}
		_ = o.Run(ctx, nil, func(_ context.Context, b Batch) error {
			size := 0
			for i := range b.Events {
				size += b.Events[i].Size()
			}
			if size > engine.BatchBytesMax || len(b.Events) == 0 {
				t.Errorf("a batch of %d events with %d bytes", len(b.Events), size)
			}
			if given += len(b.Events); given >= 900 {
				cancel()
			}
			return nil
		})
		if cancel(); given != 900 {
			t.Errorf("ordered %v: %d events", ordered, given)
		}
	}
}
