package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/blob/blobtest"
)

var ref = artifact.Ref{Run: artifact.Run{Namespace: "default", Workflow: "w", ID: "r1"}, Task: "a", Attempt: 2}

const place = "artifacts/default/w/r1/a.2/"

// left returns a folder with the artifacts of an attempt, as a keeper leaves them.
func left(t *testing.T, ref artifact.Ref, files map[string]string) artifact.Folder {
	t.Helper()
	f := artifact.Folder{Path: t.TempDir()}
	d, err := f.Begin(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if _, err := d.Add(name, strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Commit(); err != nil {
		t.Fatal(err)
	}
	return f
}

func text(t *testing.T, s interface {
	Open(context.Context, artifact.Ref, string) (artifact.Reader, artifact.Info, error)
}, ref artifact.Ref, name string) string {
	t.Helper()
	r, in, err := s.Open(t.Context(), ref, name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(io.NewSectionReader(r, 0, in.Size))
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// stores runs a test on a folder and on a server of the S3 protocol.
func stores(t *testing.T, check func(t *testing.T, blobs blob.Store)) {
	t.Run("folder", func(t *testing.T) { check(t, blobtest.Folder{Path: t.TempDir()}) })
	t.Run("s3", func(t *testing.T) { check(t, blobtest.Serve(t).Open(t, blobtest.Prefix(t), "")) })
}

// TestKeep checks that stored files are returned unchanged, that a second commit changes nothing, and that
// deleted files no longer exist.
func TestKeep(t *testing.T) {
	stores(t, func(t *testing.T, blobs blob.Store) {
		s := New(blobs)
		files := map[string]string{"report.html": "hello", "out/a/b.bin": "", "out/c ü": "c", "large": string(blobtest.Random(blob.PartSize + 3))}
		from := left(t, ref, files)
		if _, err := s.List(t.Context(), ref); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("before: %v", err)
		}
		for range 2 {
			if err := s.Keep(t.Context(), ref, from); err != nil {
				t.Fatal(err)
			}
		}
		want, _ := from.List(t.Context(), ref)
		if list, err := s.List(t.Context(), ref); err != nil || !slices.Equal(list, want) {
			t.Errorf("%v %v", list, err)
		}
		for name, content := range files {
			if text(t, s, ref, name) != content {
				t.Errorf("%s has another content", name)
			}
		}
		p := make([]byte, 10)
		if n, err := s.Piece(t.Context(), ref, "large", p, blob.PartSize-4); n != 7 || !errors.Is(err, io.EOF) || string(p[:7]) != files["large"][blob.PartSize-4:] {
			t.Errorf("%d %v", n, err)
		}
		for _, name := range []string{"none", "../x", "", "out"} {
			if _, _, err := s.Open(t.Context(), ref, name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q: %v", name, err)
			}
		}
		if u, err := s.Used(t.Context(), ref.Run); err != nil || u != (artifact.Usage{Files: 4, Bytes: 5 + 1 + blob.PartSize + 3}) {
			t.Errorf("%+v %v", u, err)
		}
		if err := s.Keep(t.Context(), ref, left(t, ref, map[string]string{"report.html": "other"})); !errors.Is(err, artifact.ErrFinal) {
			t.Errorf("other files: %v", err)
		}
		if text(t, New(blobs), ref, "report.html") != "hello" {
			t.Error("a late commit has changed a file")
		}
		other := ref
		other.Run.ID = "r10" // its name begins like that of the other run
		if err := s.Keep(t.Context(), other, left(t, other, nil)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.Delete(t.Context(), []artifact.Run{ref.Run}); err != nil {
				t.Fatal(err)
			}
		}
		if keys := blobtest.Keys(t, blobs, ""); !slices.Equal(keys, []string{"artifacts/default/w/r10/a.2/manifest.json"}) {
			t.Errorf("left: %q", keys)
		}
		if list, err := s.List(t.Context(), other); err != nil || len(list) != 0 {
			t.Errorf("no files are a list, too: %v %v", list, err)
		}
	})
}

// TestRace checks concurrent writers of one attempt: one of them wins, and its files stay complete.
func TestRace(t *testing.T) {
	stores(t, func(t *testing.T, blobs blob.Store) {
		const writers = 6
		var wg sync.WaitGroup
		var won atomic.Int32
		won.Store(-1)
		for i := range writers {
			from := left(t, ref, map[string]string{"a": fmt.Sprint(i), "b": fmt.Sprint(i)})
			wg.Go(func() {
				switch err := New(blobs).Keep(t.Context(), ref, from); {
				case err == nil && !won.CompareAndSwap(-1, int32(i)):
					t.Error("two writers have won")
				case err != nil && !errors.Is(err, artifact.ErrFinal):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		want := fmt.Sprint(won.Load())
		s := New(blobs)
		if a, b := text(t, s, ref, "a"), text(t, s, ref, "b"); a != want || b != want {
			t.Errorf("%s and %s, but writer %s won", a, b, want)
		}
		if keys := blobtest.Keys(t, blobs, ""); len(keys) != 3 {
			t.Errorf("the losers have left files: %q", keys)
		}
	})
}

// scripted is a store that fails as the test has set.
type scripted struct {
	blob.Store
	before func(key string) error // called before a Put; after an error, Put writes nothing
	after  func(key string) error // called after a Put has written
}

func (s *scripted) Put(ctx context.Context, key string, content io.ReaderAt, size int64, o blob.PutOptions) error {
	if s.before != nil {
		if err := s.before(key); err != nil {
			return err
		}
	}
	err := s.Store.Put(ctx, key, content, size, o)
	if err == nil && s.after != nil {
		err = s.after(key)
	}
	return err
}

// TestLostAnswer: if the answer to the write of a manifest is lost, the files are committed, and the writer
// recognises the manifest as its own.
func TestLostAnswer(t *testing.T) {
	folder := blobtest.Folder{Path: t.TempDir()}
	lost := 0
	s := New(&scripted{Store: folder, after: func(key string) error {
		if strings.HasSuffix(key, manifestName) && lost == 0 {
			lost++
			return errors.New("the answer is lost")
		}
		return nil
	}})
	if err := s.Keep(t.Context(), ref, left(t, ref, map[string]string{"a": "1"})); err != nil || lost != 1 {
		t.Fatal(err, lost)
	}
	if text(t, New(folder), ref, "a") != "1" {
		t.Error("the file is not there")
	}
}

// TestNeverAnswered: the files stay if it is not known whether their manifest was written.
func TestNeverAnswered(t *testing.T) {
	folder := blobtest.Folder{Path: t.TempDir()}
	s := New(&scripted{Store: folder, after: func(key string) error {
		if strings.HasSuffix(key, manifestName) {
			return errors.New("the answer is lost")
		}
		return nil
	}})
	d := s.keep(t.Context(), ref, left(t, ref, map[string]string{"a": "1"}), 0)
	if !errors.Is(d, ErrAway) {
		t.Fatal(d)
	}
	if text(t, New(folder), ref, "a") != "1" {
		t.Error("a manifest names a file that is not there")
	}
}

// TestAway checks both outcomes while a store does not answer: the wait ends at its bound, or the store
// answers again before that.
func TestAway(t *testing.T) {
	folder := blobtest.Folder{Path: t.TempDir()}
	tries, noAnswer := 0, errors.New("no answer")
	away := &scripted{Store: folder, before: func(string) error { return noAnswer }}
	from := left(t, ref, map[string]string{"a": "1", "b": "2"})
	if err := New(away).keep(t.Context(), ref, from, 0); !errors.Is(err, ErrAway) || !errors.Is(err, noAnswer) {
		t.Errorf("%v", err)
	}
	if keys := blobtest.Keys(t, folder, ""); len(keys) != 0 {
		t.Errorf("left: %q", keys)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	away.before = func(string) error { cancel(stopped); return noAnswer }
	if err := New(away).Keep(ctx, ref, from); !errors.Is(err, stopped) {
		t.Errorf("%v", err)
	}
	tries = 0
	away.before = func(string) error {
		if tries++; tries < 3 {
			return noAnswer
		}
		return nil
	}
	if err := New(away).Keep(t.Context(), ref, from); err != nil {
		t.Error(err)
	}
	long := left(t, ref, map[string]string{strings.Repeat("n/", blob.KeyMax/2) + "x": ""})
	other := ref
	other.Attempt = 3
	if err := os.Rename(filepath.Join(long.Path, "artifacts/default/w/r1/a.2"), filepath.Join(long.Path, "artifacts/default/w/r1/a.3")); err != nil {
		t.Fatal(err)
	}
	if err := New(folder).Keep(t.Context(), other, long); !errors.Is(err, blob.ErrKey) {
		t.Errorf("a long name: %v", err)
	}
}

// TestThroughFaults: artifacts are stored, read and deleted through a proxy that cuts, delays, fails and
// repeats requests.
func TestThroughFaults(t *testing.T) {
	server := blobtest.Serve(t)
	p := blobtest.NewProxy(t, server, blobtest.Some())
	s := New(server.Open(t, blobtest.Prefix(t), p.Address))
	files := map[string]string{"large": string(blobtest.Random(blob.PartSize + 9))}
	for i := range 5 {
		files[fmt.Sprintf("out/%d", i)] = strings.Repeat("x", 100_000*i)
	}
	if err := s.Keep(t.Context(), ref, left(t, ref, files)); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if text(t, s, ref, name) != content {
			t.Errorf("%s has another content", name)
		}
	}
	if err := s.Delete(t.Context(), []artifact.Run{ref.Run}); err != nil {
		t.Error(err)
	}
	p.Choose(func(int, *http.Request) blobtest.Fault { return blobtest.None })
	if _, err := s.List(t.Context(), ref); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("deleted: %v", err)
	}
}

// TestKilled checks that if a process dies after the files and before the manifest, readers see none of the
// files, and Sweep deletes them.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("SKEIN_TEST_DIES"); dir != "" {
		s := New(&scripted{Store: blobtest.Folder{Path: dir}, before: func(key string) error {
			if strings.HasSuffix(key, manifestName) {
				fmt.Println("now")
				select {}
			}
			return nil
		}})
		t.Fatal(s.Keep(t.Context(), ref, left(t, ref, map[string]string{"a": "1", "b/c": "2"})))
	}
	folder := blobtest.Folder{Path: t.TempDir()}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestKilled$")
	cmd.Env = append(os.Environ(), "SKEIN_TEST_DIES="+folder.Path, "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // an error, because the process was killed
	if keys := blobtest.Keys(t, folder, ""); len(keys) != 2 {
		t.Fatalf("%q", keys)
	}
	s := New(folder)
	if _, err := s.List(t.Context(), ref); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if u, err := s.Used(t.Context(), ref.Run); err != nil || u != (artifact.Usage{}) {
		t.Errorf("%v %v", u, err)
	}
	// The next try to deliver commits. The files of the killed process do not disturb it.
	if err := s.Keep(t.Context(), ref, left(t, ref, map[string]string{"a": "3"})); err != nil {
		t.Fatal(err)
	}
	stays := func(context.Context, string) (bool, error) { return false, nil }
	if err := s.sweep(t.Context(), time.Now(), stays); err != nil || len(blobtest.Keys(t, folder, "")) != 4 {
		t.Errorf("young files: %v %q", err, blobtest.Keys(t, folder, ""))
	}
	if err := s.sweep(t.Context(), time.Now().Add(UnfinishedMax+time.Hour), stays); err != nil {
		t.Error(err)
	}
	if keys := blobtest.Keys(t, folder, ""); len(keys) != 2 || text(t, New(folder), ref, "a") != "3" {
		t.Errorf("after the sweep: %q", keys)
	}
}

// TestSweep: uncommitted files, and the artifacts of runs that are gone, are deleted over several pages.
func TestSweep(t *testing.T) {
	folder := blobtest.Folder{Path: t.TempDir()}
	s := New(folder)
	for i := range 3 {
		r := ref
		r.Run.ID = fmt.Sprintf("r%d", i)
		if err := s.Keep(t.Context(), r, left(t, r, map[string]string{"a": "1"})); err != nil {
			t.Fatal(err)
		}
	}
	for i := range blob.PageMax * 2 {
		blobtest.Put(t, folder, fmt.Sprintf("artifacts/default/w/r1/dead.1/files/D/%04d", i), "")
	}
	blobtest.Put(t, folder, "artifacts/default/w/r2/dead.1/files/D/x", "")
	blobtest.Put(t, folder, "artifacts/foreign", "")
	gone := func(_ context.Context, run string) (bool, error) { return run == "r0", nil }
	later := time.Now().Add(StrayMax + time.Hour)
	for range 4 {
		if err := s.sweep(t.Context(), later, gone); err != nil {
			t.Fatal(err)
		}
	}
	if keys := blobtest.Keys(t, folder, ""); len(keys) != 5 || keys[0] != "artifacts/default/w/r1/a.2/"+filesName+strings.Split(keys[0], "/")[6]+"/a" {
		t.Errorf("%q", keys)
	}
}

// TestSpool: the home keeps received files in its folder until the commit. The commit moves them into the
// objects.
func TestSpool(t *testing.T) {
	blobs := blobtest.Folder{Path: t.TempDir()}
	s := Spool{Store: New(blobs), Folder: artifact.Folder{Path: t.TempDir()}}
	k := &artifact.Keeper{Store: s, Limits: artifact.LimitsDefault}
	committed := false
	put := func(content string) error {
		in, err := k.Begin(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Discard()
		info := artifact.Info{Name: "a", Size: int64(len(content)), SHA256: blobtest.Sum([]byte(content))}
		if err := in.Put(t.Context(), info, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.List(t.Context(), ref); !committed && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("before the commit: %v", err)
		}
		return in.Commit([]artifact.Info{info})
	}
	for _, c := range []struct {
		content string
		want    error
	}{{"first", nil}, {"first", nil}, {"second", artifact.ErrFinal}} {
		if err := put(c.content); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.content, err)
		}
		committed = true
	}
	if text(t, s, ref, "a") != "first" {
		t.Error("another content")
	}
	if left, _ := filepath.Glob(filepath.Join(s.Folder.Path, "artifacts", "*", "*", "*")); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// TestDelivery: delivered artifacts leave the folder; those of ended attempts are removed by Clean.
func TestDelivery(t *testing.T) {
	blobs := blobtest.Folder{Path: t.TempDir()}
	from := left(t, ref, map[string]string{"a": "1"})
	d := NewDelivery(New(blobs), from, slog.New(slog.DiscardHandler))
	if !d.Waiting(ref) {
		t.Fatal("nothing waits")
	}
	ended := errors.New("ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	if err := d.Deliver(ctx, ref); !errors.Is(err, ended) || !d.Waiting(ref) {
		t.Errorf("%v", err)
	}
	d.Clean(map[string]bool{"r1": true})
	if err := d.Deliver(t.Context(), ref); err != nil || d.Waiting(ref) {
		t.Errorf("%v", err)
	}
	again := left(t, ref, map[string]string{"a": "1"})
	d = NewDelivery(New(blobs), again, slog.New(slog.DiscardHandler))
	if d.Clean(nil); d.Waiting(ref) {
		t.Error("artifacts of an ended attempt are left")
	}
	if !bytes.HasPrefix([]byte(blobtest.Keys(t, blobs, "")[0]), []byte(place)) {
		t.Errorf("%q", blobtest.Keys(t, blobs, ""))
	}
}

// TestHangDelaysNoOther: a store that never answers for one attempt does not delay another attempt. The
// clock of the test stands still while anything works.
func TestHangDelaysNoOther(t *testing.T) {
	other := artifact.Ref{Run: artifact.Run{Namespace: "default", Workflow: "w", ID: "r2"}, Task: "a", Attempt: 2}
	first, second := left(t, ref, map[string]string{"a": "1"}), left(t, other, map[string]string{"a": "2"})
	folder := blobtest.Folder{Path: t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		hangs, began := make(chan struct{}), make(chan struct{}, 100)
		s := New(&scripted{Store: folder, before: func(key string) error {
			if strings.Contains(key, "/"+ref.Run.ID+"/") {
				began <- struct{}{}
				<-hangs
			}
			return nil
		}})
		var keeping sync.WaitGroup
		keeping.Go(func() {
			if err := s.Keep(t.Context(), ref, first); err != nil {
				t.Error(err)
			}
		})
		<-began
		at := time.Now()
		if err := s.Keep(t.Context(), other, second); err != nil || time.Since(at) != 0 {
			t.Errorf("the other attempt: %v after %v", err, time.Since(at))
		}
		close(hangs)
		keeping.Wait()
	})
}
