package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"skein.dev/skein/internal/audit"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

const origin = "skein.dev/audit/test"

// post is a node's keeper with its files.
type post struct {
	*audit.Keeper
	dir string
	log *bytes.Buffer
}

func newPost(t *testing.T, s audit.Store, dir string, keep time.Duration) *post {
	t.Helper()
	signer, err := audit.Key(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	p := &post{dir: dir, log: &bytes.Buffer{}}
	p.Keeper, err = audit.NewKeeper(audit.Config{Store: s, Origin: origin, Signer: signer, File: audit.NewFile(filepath.Join(dir, "checkpoints"), p.key(t)),
		Keep: func() time.Duration { return keep }, Log: slog.New(slog.NewTextHandler(p.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *post) key(t *testing.T) note.Verifier {
	t.Helper()
	v, err := audit.PublicKey(filepath.Join(p.dir, "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (p *post) step(t *testing.T) {
	t.Helper()
	if err := p.Step(t.Context(), true); err != nil {
		t.Fatal(err)
	}
}

func change(t *testing.T, s store.AuditLog, n int) {
	t.Helper()
	for range n {
		if err := s.AddAudit(t.Context(), store.Audit{Key: uuid.New(), Count: 1, Action: "stop-run", Outcome: store.AuditDone}); err != nil {
			t.Fatal(err)
		}
	}
}

// verify compares the store with the checkpoints of nodes.
func verify(t *testing.T, s store.AuditLog, keep time.Duration, posts ...*post) audit.Report {
	t.Helper()
	tree, err := s.AuditTree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []audit.Checkpoint
	for _, p := range posts {
		some, invalid, err := audit.Checkpoints(filepath.Join(p.dir, "checkpoints"), note.VerifierList(p.key(t)))
		if err != nil || invalid > 0 {
			t.Fatal(invalid, err)
		}
		all = append(all, some...)
	}
	v := audit.NewVerifier(tree, all, keep, time.Now())
	rows, err := s.AuditLeaves(t.Context(), 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if err := v.Row(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	return v.Report()
}

// TestTwoKeepers: the keepers of two nodes advance one log, and each signs it. One keeper ends, and the other
// one gives the missing indexes.
func TestTwoKeepers(t *testing.T) {
	s := memory.New(memory.Options{})
	a, b := newPost(t, s, t.TempDir(), 0), newPost(t, s, t.TempDir(), 0)
	var wg sync.WaitGroup
	for _, p := range []*post{a, b} {
		wg.Go(func() {
			for range 20 {
				change(t, s, 3)
				if err := p.Step(t.Context(), true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.step(t)
	if got := verify(t, s, 0, a, b); !got.Good() || got.Size != 120 || got.Covered != 120 || got.Fresh != 0 {
		t.Fatalf("%+v", got)
	}
	change(t, s, 2) // the process of a is killed before it gives these rows an index
	b.step(t)
	if got := verify(t, s, 0, a, b); !got.Good() || got.Covered != 122 {
		t.Fatalf("%+v", got)
	}
	again := newPost(t, s, a.dir, 0)
	change(t, s, 1)
	again.step(t)
	if got := verify(t, s, 0, a); !got.Good() || got.Covered != 123 {
		t.Fatalf("after a restart: %+v", got)
	}
}

// TestGoneBack: a node that finds fewer rows than it has signed reports it and signs no other past, unless
// the era has risen.
func TestGoneBack(t *testing.T) {
	s := memory.New(memory.Options{})
	p := newPost(t, s, t.TempDir(), 0)
	change(t, s, 5)
	p.step(t)
	saved := memory.Save(s)
	change(t, s, 5)
	p.step(t)
	memory.GoBack(s, saved)
	p.step(t)
	if !strings.Contains(p.log.String(), "audit_cut") {
		t.Errorf("the log does not say that rows are gone: %s", p.log)
	}
	if got := verify(t, s, 0, p); len(got.Findings) != 1 || got.Findings[0].Kind != audit.CutOff || got.Findings[0].From != 5 || got.Findings[0].To != 10 {
		t.Errorf("%+v", got)
	}
	if _, err := s.Raise(t.Context(), 0, 1, nil); err != nil {
		t.Fatal(err)
	}
	change(t, s, 2)
	p.step(t)
	got := verify(t, s, 0, p)
	if !got.Good() || len(got.Regresses) != 1 || got.Regresses[0].From != 5 || got.Regresses[0].To != 10 || got.Covered != 7 {
		t.Errorf("%+v", got)
	}
}

func TestKeeperForgets(t *testing.T) {
	now := dag.Micro(time.Now().Add(-2 * time.Hour))
	s := memory.New(memory.Options{Clock: func() dag.Micros { return now }})
	p := newPost(t, s, t.TempDir(), time.Hour)
	change(t, s, 4)
	p.step(t)
	now += 2 * 3600 * 1e6
	change(t, s, 3)
	p.step(t)
	tree, err := s.AuditTree(t.Context())
	if err != nil || tree.First != 4 || tree.Size != 7 {
		t.Fatalf("%+v, %v", tree, err)
	}
	if got := verify(t, s, 0, p); !got.Good() || got.First != 4 || got.Covered != 7 {
		t.Errorf("%+v", got)
	}
}

// TestTornFile: the node is killed while it writes a checkpoint.
func TestTornFile(t *testing.T) {
	s := memory.New(memory.Options{})
	p := newPost(t, s, t.TempDir(), 0)
	change(t, s, 1)
	p.step(t)
	file := filepath.Join(p.dir, "checkpoints")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < len(whole)-70; n += 17 {
		if err := os.WriteFile(file, append(bytes.Clone(whole), whole[:n]...), 0o600); err != nil {
			t.Fatal(err)
		}
		again := newPost(t, s, p.dir, 0)
		change(t, s, 1)
		again.step(t)
		if got := verify(t, s, 0, p); !got.Good() || got.Covered != got.Size {
			t.Fatalf("torn after %d bytes: %+v", n, got)
		}
	}
}

// TestRefusedCalls: refused calls become rows, also those of the last minute before the node ends.
func TestRefusedCalls(t *testing.T) {
	s := memory.New(memory.Options{})
	p := newPost(t, s, t.TempDir(), 0)
	ctx, stop := context.WithCancel(t.Context())
	for range 1000 {
		p.Refuse(store.Audit{Address: "10.0.0.9", Verb: "run.read", Action: "list-runs"})
	}
	stop()
	p.Run(ctx)
	rows, err := s.AuditList(t.Context(), store.AuditQuery{Limit: 10})
	if err != nil || len(rows) != 1 || rows[0].Count != 1000 || rows[0].Outcome != store.AuditRefused {
		t.Errorf("%+v, %v", rows, err)
	}
}

// TestFirstCheckpoint: the first row after a rest gets its checkpoint at once. Rows that follow within a
// minute wait for their checkpoint, unless the node ends.
func TestFirstCheckpoint(t *testing.T) {
	s := memory.New(memory.Options{})
	p := newPost(t, s, t.TempDir(), 0)
	once := func(want int64) {
		t.Helper()
		if err := p.Step(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if got := verify(t, s, 0, p); !got.Good() || got.Covered != want {
			t.Fatalf("%+v, want %d rows that are covered", got, want)
		}
	}
	if err := p.Step(t.Context(), false); err != nil { // there is nothing yet
		t.Fatal(err)
	}
	change(t, s, 1)
	once(1)
	change(t, s, 2)
	once(1)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	p.Run(ctx)
	once(3)
}

// TestToldRegress: the era has risen since rows were lost, and no change was made yet. The node does not
// report a cut, and neither does a comparison.
func TestToldRegress(t *testing.T) {
	s := memory.New(memory.Options{})
	p := newPost(t, s, t.TempDir(), 0)
	change(t, s, 5)
	p.step(t)
	saved := memory.Save(s)
	change(t, s, 5)
	p.step(t)
	memory.GoBack(s, saved)
	if _, err := s.Raise(t.Context(), 0, 1, nil); err != nil {
		t.Fatal(err)
	}
	p.step(t)
	if strings.Contains(p.log.String(), "audit_cut") {
		t.Errorf("the log says that rows are gone: %s", p.log)
	}
	if got := verify(t, s, 0, p); !got.Good() || len(got.Regresses) != 1 || got.Regresses[0].From != 5 || got.Regresses[0].To != 10 {
		t.Errorf("%+v", got)
	}
}

// TestCutInAQuietEra: an era that began quietly proves no loss. Missing rows of this era are reported, also
// after the next change.
func TestCutInAQuietEra(t *testing.T) {
	s := memory.New(memory.Options{})
	p := newPost(t, s, t.TempDir(), 0)
	change(t, s, 5)
	p.step(t)
	saved := memory.Save(s)
	change(t, s, 5)
	p.step(t)
	memory.GoBack(s, saved)
	memory.Settle(s, 0)
	for range 2 {
		p.step(t)
		if got := verify(t, s, 0, p); len(got.Findings) != 1 || got.Findings[0].Kind != audit.CutOff || len(got.Regresses) != 0 {
			t.Errorf("%+v", got)
		}
		change(t, s, 1)
	}
	if !strings.Contains(p.log.String(), "audit_cut") {
		t.Errorf("the log does not say that rows are gone: %s", p.log)
	}
	marks := must(s.Marks(t.Context()))(t)
	if store.EraOf(marks) != 1 || store.FloorOf(marks) != 0 {
		t.Errorf("the marks are %v", marks)
	}
}

// interrupted is a store that calls a function before it reads the first page of rows.
type interrupted struct {
	audit.Store
	once func()
}

func (s *interrupted) AuditLeaves(ctx context.Context, from int64, limit int) ([]store.Audit, error) {
	if do := s.once; do != nil {
		s.once = nil
		do()
	}
	return s.Store.AuditLeaves(ctx, from, limit)
}

// TestExportMeanwhile: retention deletes rows between the state of the tree and the rows. The export fails,
// because the missing rows would look like removed ones.
func TestExportMeanwhile(t *testing.T) {
	now := dag.Micro(time.Now().Add(-2 * time.Hour))
	s := memory.New(memory.Options{Clock: func() dag.Micros { return now }})
	p := newPost(t, s, t.TempDir(), time.Hour)
	change(t, s, 4)
	p.step(t)
	now += 2 * 3600 * 1e6
	change(t, s, 3)
	tree := must(s.AuditTree(t.Context()))(t)
	err := audit.Export(t.Context(), audit.Head{Tree: tree}, &interrupted{s, func() { p.step(t) }}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "export again") {
		t.Error(err)
	}
	tree = must(s.AuditTree(t.Context()))(t)
	if err := audit.Export(t.Context(), audit.Head{Tree: tree}, s, io.Discard); err != nil {
		t.Error(err)
	}
}

// forged is a store in which an attacker has inserted a row at the next index.
type forged struct{ audit.Store }

func (f forged) GrowAudit(context.Context, int64, store.AuditTree, []store.AuditLeaf) error {
	return fmt.Errorf("audit_index: %w", store.ErrRefused)
}

// TestForgedPlace: a forged row at the next index stops the growth of the tree. The node continues its other
// work, and logs the error once and not at each change.
func TestForgedPlace(t *testing.T) {
	now := dag.Micro(time.Now().Add(-2 * time.Hour))
	s := memory.New(memory.Options{Clock: func() dag.Micros { return now }})
	dir := t.TempDir()
	first := newPost(t, s, dir, 0)
	change(t, s, 3)
	first.step(t)
	now += 2 * 3600 * 1e6
	p := newPost(t, forged{s}, dir, time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { p.Run(ctx); close(done) }()
	change(t, s, 100)
	for range 100 {
		p.Wake()
		time.Sleep(time.Millisecond)
	}
	stop()
	<-done
	if n := strings.Count(p.log.String(), "audit_behind"); n != 1 || !strings.Contains(p.log.String(), "a row with the index 3 or a later one that no node wrote; run skein audit verify") {
		t.Errorf("%d lines in the log: %s", n, p.log)
	}
	if tree, err := s.AuditTree(t.Context()); err != nil || tree.First != 3 {
		t.Errorf("old rows were not deleted: %+v, %v", tree, err)
	}
	if rows := len(must(s.AuditFresh(t.Context(), 1000))(t)); rows != 100 {
		t.Errorf("%d rows wait, want 100", rows)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestKeyIsWhole: if a key cannot be written completely, no key file exists, and the next start makes another
// key. If the public key is missing, or belongs to another key, it is written again.
func TestKeyIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.Mkdir(path+audit.PublicSuffix, 0o700); err != nil { // a folder at the path of the public key
		t.Fatal(err)
	}
	if _, err := audit.Key(path); err == nil {
		t.Error("a key without a public key is used")
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".key*")); err != nil || len(left) > 0 {
		t.Errorf("parts are left: %v, %v", left, err)
	}
	if err := os.Remove(path + audit.PublicSuffix); err != nil {
		t.Fatal(err)
	}
	made := must(audit.Key(path))(t)
	other := filepath.Join(t.TempDir(), "key")
	must(audit.Key(other))(t)
	for _, text := range [][]byte{nil, []byte("half a key"), must(os.ReadFile(other + audit.PublicSuffix))(t)} {
		if err := os.WriteFile(path+audit.PublicSuffix, text, 0o600); err != nil {
			t.Fatal(err)
		}
		again := must(audit.Key(path))(t)
		public, err := audit.PublicKey(path + audit.PublicSuffix)
		if err != nil || public.KeyHash() != made.KeyHash() || again.KeyHash() != made.KeyHash() {
			t.Errorf("%q as the public key: it is not replaced by that of the private one: %v", text, err)
		}
	}
}

// TestOneKey: nodes whose setting names one file agree on its key, although all of them start for the first
// time at once.
func TestOneKey(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "audit", "key")
		var wg sync.WaitGroup
		hashes := make([]uint32, 8)
		for i := range hashes {
			wg.Go(func() {
				if signer, err := audit.Key(path); err != nil {
					t.Error(err)
				} else {
					hashes[i] = signer.KeyHash()
				}
			})
		}
		wg.Wait()
		public := must(audit.PublicKey(path + audit.PublicSuffix))(t)
		for _, hash := range hashes {
			if hash != public.KeyHash() {
				t.Fatalf("a node signs with key %08x, and the public key is %08x", hash, public.KeyHash())
			}
		}
		if left := must(os.ReadDir(filepath.Dir(path)))(t); len(left) != 2 {
			t.Fatalf("files left: %v", left)
		}
	}
}
