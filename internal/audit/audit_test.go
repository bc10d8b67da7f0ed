package audit

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var start = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

func row(i int) store.Audit {
	at := dag.Micro(start.Add(time.Duration(i) * time.Minute))
	return store.Audit{ID: int64(i + 1), Key: uuid.NewSHA1(uuid.Nil, []byte{byte(i), byte(i >> 8)}), Index: -1, At: at, Last: at, Count: 1, Principal: "ada", Kind: "user",
		Token: 3, Address: "10.0.0.7", Verb: "run.control", Action: "stop-run", Object: fmt.Sprintf("/runs/%d", i), Namespace: "shop", Outcome: store.AuditDone}
}

// logbook is an audit log as a node writes it, with a checkpoint after each row.
type logbook struct {
	tree   store.AuditTree
	rows   []store.Audit
	points []Checkpoint
}

func (l *logbook) grow(t testing.TB, n int, era dag.Era) {
	t.Helper()
	for range n {
		r := row(len(l.rows))
		next, leaves, err := Grow(l.tree, era, []store.Audit{r})
		if err != nil {
			t.Fatal(err)
		}
		r.Index, r.Hash = l.tree.Size, leaves[0].Hash
		l.tree, l.rows = next, append(l.rows, r)
		l.point(t, r.At.Time().Add(30*time.Second))
	}
}

func (l *logbook) point(t testing.TB, at time.Time) {
	t.Helper()
	e, err := newEdge(l.tree.Size, l.tree.Edge)
	if err != nil {
		t.Fatal(err)
	}
	root, err := e.root()
	if err != nil {
		t.Fatal(err)
	}
	l.points = append(l.points, Checkpoint{Origin: NewOrigin("c"), Size: l.tree.Size, Root: root, Era: l.tree.Era, Base: l.tree.Base, At: at, Edge: l.tree.Edge})
}

func newLog(t testing.TB, n int) *logbook {
	l := &logbook{}
	l.grow(t, n, 0)
	return l
}

func (l *logbook) verify(t testing.TB, keep time.Duration) Report {
	t.Helper()
	v := NewVerifier(l.tree, l.points, keep, start.Add(24*time.Hour))
	for i := range l.rows {
		r := l.rows[i]
		if err := v.Row(&r); err != nil {
			t.Fatal(err)
		}
	}
	return v.Report()
}

// rewrite replaces all hashes in the database, so that they fit the changed rows, as a careful attacker does.
func (l *logbook) rewrite(t testing.TB) {
	t.Helper()
	is := store.AuditTree{First: l.tree.First, Head: l.tree.Head, Era: l.tree.Era, Base: l.tree.Base, Size: l.tree.First, Edge: l.tree.Head}
	next, leaves, err := Grow(is, is.Era, l.rows)
	if err != nil {
		t.Fatal(err)
	}
	for i := range l.rows {
		l.rows[i].Index, l.rows[i].Hash = l.tree.First+int64(i), leaves[i].Hash
	}
	l.tree = next
}

// TestRoot compares the roots with a tree that is computed as RFC 6962, section 2.1, defines it.
func TestRoot(t *testing.T) {
	var mth func([][]byte) []byte
	mth = func(leaves [][]byte) []byte {
		switch n := len(leaves); n {
		case 0:
			sum := sha256.Sum256(nil)
			return sum[:]
		case 1:
			sum := sha256.Sum256(append([]byte{0}, leaves[0]...))
			return sum[:]
		default:
			k := 1
			for k*2 < n {
				k *= 2
			}
			sum := sha256.Sum256(slices.Concat([]byte{1}, mth(leaves[:k]), mth(leaves[k:])))
			return sum[:]
		}
	}
	l := &logbook{}
	l.point(t, start)
	var leaves [][]byte
	for i := range 33 {
		if want := mth(leaves); !bytes.Equal(l.points[i].Root, want) {
			t.Fatalf("root of %d rows: %x, want %x", i, l.points[i].Root, want)
		}
		r := row(i)
		leaves = append(leaves, Leaf(&r))
		l.grow(t, 1, 0)
	}
}

// TestLeaf: each field is part of the leaf, and no two divisions of the same text into fields are alike.
func TestLeaf(t *testing.T) {
	base := row(0)
	seen := map[string]string{string(Leaf(&base)): "nothing"}
	for name, change := range map[string]func(*store.Audit){
		"key": func(r *store.Audit) { r.Key[3]++ }, "at": func(r *store.Audit) { r.At++ }, "last": func(r *store.Audit) { r.Last++ },
		"count": func(r *store.Audit) { r.Count++ }, "principal": func(r *store.Audit) { r.Principal = "eve" }, "kind": func(r *store.Audit) { r.Kind = "x" },
		"token": func(r *store.Audit) { r.Token++ }, "session": func(r *store.Audit) { r.Session++ }, "address": func(r *store.Audit) { r.Address = "x" },
		"verb": func(r *store.Audit) { r.Verb = "x" }, "action": func(r *store.Audit) { r.Action = "x" }, "object": func(r *store.Audit) { r.Object = "x" },
		"namespace": func(r *store.Audit) { r.Namespace = "x" }, "outcome": func(r *store.Audit) { r.Outcome = "x" },
		"request": func(r *store.Audit) { r.Request = "x" }, "detail": func(r *store.Audit) { r.Detail = "x" },
		"a shifted border": func(r *store.Audit) { r.Principal, r.Kind = "adau", "ser" },
	} {
		r := base
		change(&r)
		if was, there := seen[string(Leaf(&r))]; there {
			t.Errorf("a change of %s has the same leaf as a change of %s", name, was)
		}
		seen[string(Leaf(&r))] = name
	}
}

func TestVerify(t *testing.T) {
	covered := func(i int) time.Time { return row(i).At.Time().Add(30 * time.Second) }
	for _, c := range []struct {
		name   string
		tamper func(*logbook)
		want   []Finding // without texts
	}{
		{"nothing", func(*logbook) {}, nil},
		{"a changed row", func(l *logbook) { l.rows[5].Principal = "eve" },
			[]Finding{{Kind: Changed, From: 5, To: 6, Since: covered(5), Before: covered(4)}}},
		{"a changed row with its hash", func(l *logbook) { l.rows[5].Principal = "eve"; l.rows[5].Hash = Hash(&l.rows[5]) },
			[]Finding{{Kind: Replaced, From: 5, To: 6, Since: covered(5), Before: covered(4)}}},
		{"a changed row and all hashes", func(l *logbook) { l.rows[5].Principal = "eve"; l.rewrite(t) },
			[]Finding{{Kind: Replaced, From: 5, To: 6, Since: covered(5), Before: covered(4)}}},
		{"a removed row", func(l *logbook) { l.rows = slices.Delete(l.rows, 5, 6) },
			[]Finding{{Kind: Removed, From: 5, To: 6, Since: covered(5), Before: covered(4)}}},
		{"a removed row and all hashes", func(l *logbook) { l.rows = slices.Delete(l.rows, 5, 6); l.rewrite(t) },
			[]Finding{{Kind: Replaced, From: 5, To: 6, Since: covered(5), Before: covered(4)}, {Kind: CutOff, From: 19, To: 20, Since: covered(19), Before: covered(18)}}},
		{"an inserted row and all hashes", func(l *logbook) {
			r := row(40)
			r.At, r.Last = l.rows[7].At, l.rows[7].At
			l.rows = slices.Insert(l.rows, 7, r)
			l.rewrite(t)
		}, []Finding{{Kind: Replaced, From: 7, To: 8, Since: covered(7), Before: covered(6)}}},
		{"an index twice", func(l *logbook) { r := l.rows[7]; r.Principal = "eve"; l.rows = slices.Insert(l.rows, 8, r) },
			[]Finding{{Kind: Inserted, From: 7, To: 8, Since: covered(7), Before: covered(6)}}},
		{"two swapped rows", func(l *logbook) {
			l.rows[3], l.rows[4] = l.rows[4], l.rows[3]
			l.rows[3].Index, l.rows[4].Index = 3, 4
		}, []Finding{{Kind: Replaced, From: 3, To: 4, Since: covered(3), Before: covered(2)}}},
		{"a cut tail", func(l *logbook) { l.rows = l.rows[:17] },
			[]Finding{{Kind: CutOff, From: 17, To: 20, Since: covered(17), Before: covered(16)}}},
		{"a cut tail and all hashes", func(l *logbook) { l.rows = l.rows[:17]; l.rewrite(t) },
			[]Finding{{Kind: CutOff, From: 17, To: 20, Since: covered(17), Before: covered(16)}}},
		{"everything cut", func(l *logbook) { l.rows = nil; l.rewrite(t) },
			[]Finding{{Kind: CutOff, From: 0, To: 20, Since: covered(0)}}},
		{"the tree itself", func(l *logbook) { l.tree.Edge = bytes.Repeat([]byte{1}, len(l.tree.Edge)) },
			[]Finding{{Kind: Damaged, From: 20, To: 20}}},
		{"a row of long ago", func(l *logbook) {
			r := row(20)
			r.At, r.Last = l.rows[2].At, l.rows[2].At
			l.rows = append(l.rows, r)
			last := l.points[19]
			l.rewrite(t)
			l.point(t, last.At.Add(time.Minute))
		}, []Finding{{Kind: Late, From: 20, To: 21, Since: covered(20), Before: covered(19)}}},
		{"refused calls of a time without the database", func(l *logbook) {
			r := row(20)
			r.At, r.Last, r.Outcome = l.rows[2].At, l.rows[2].At, store.AuditRefused
			l.rows = append(l.rows, r)
			last := l.points[19]
			l.rewrite(t)
			l.point(t, last.At.Add(time.Minute))
		}, nil},
		{"the oldest rows before their time", func(l *logbook) {
			next, err := Forget(l.tree, l.rows[:4])
			if err != nil {
				t.Fatal(err)
			}
			l.tree, l.rows = next, l.rows[4:]
		}, []Finding{{Kind: Removed, From: 3, To: 4, Before: covered(2)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLog(t, 20)
			c.tamper(l)
			got := l.verify(t, 48*time.Hour)
			for i := range got.Findings {
				if got.Findings[i].Text == "" {
					t.Error("a finding without a text")
				}
				got.Findings[i].Text = ""
			}
			if !slices.EqualFunc(got.Findings, c.want, func(a, b Finding) bool {
				return a.Kind == b.Kind && a.From == b.From && a.To == b.To && a.Since.Equal(b.Since) && a.Before.Equal(b.Before)
			}) {
				t.Errorf("found %+v\nwant %+v", got.Findings, c.want)
			}
		})
	}
}

// TestForget: a log without its oldest rows can still be proved, also with the checkpoints from before the
// deletion.
func TestForget(t *testing.T) {
	l := newLog(t, 20)
	for _, n := range []int{1, 6, 4} {
		next, err := Forget(l.tree, l.rows[:n])
		if err != nil {
			t.Fatal(err)
		}
		l.tree, l.rows = next, l.rows[n:]
		if got := l.verify(t, time.Hour); !got.Good() || got.Covered != 20 || got.First != l.tree.First {
			t.Fatalf("%+v", got)
		}
	}
	l.rows[2].Detail = "another one"
	if _, err := Forget(l.tree, l.rows[:3]); err == nil || !strings.Contains(err.Error(), "row 13 of the audit log was changed") {
		t.Errorf("a changed row is forgotten: %v", err)
	}
	if _, err := Forget(l.tree, l.rows[1:2]); err == nil {
		t.Error("a row is forgotten, and the one before it is missing")
	}
}

// TestRegress: rows that were lost in a recorded regress are no sign of tampering. Missing rows before or
// after them are such a sign.
func TestRegress(t *testing.T) {
	l := newLog(t, 20)
	l.rows = l.rows[:15]
	back := newLog(t, 15)
	l.tree = back.tree // the tree of a standby that lacks the last rows
	l.grow(t, 8, 1)
	got := l.verify(t, 0)
	if !got.Good() || len(got.Regresses) != 1 {
		t.Fatalf("%+v", got)
	}
	if r := got.Regresses[0]; r.Era != 1 || r.From != 15 || r.To != 20 {
		t.Errorf("regress %+v", r)
	}
	cut := *l
	cut.rows = slices.Clone(l.rows[:21])
	cut.rewrite(t)
	if got := cut.verify(t, 0); len(got.Findings) != 1 || got.Findings[0].Kind != CutOff || got.Findings[0].From != 21 || got.Findings[0].To != 23 {
		t.Errorf("rows cut off after the regress: %+v", got)
	}
	changed := *l
	changed.rows = slices.Clone(l.rows)
	changed.rows[3].Object = "/runs/x"
	changed.rewrite(t)
	if got := changed.verify(t, 0); len(got.Findings) != 1 || got.Findings[0].Kind != Replaced || got.Findings[0].From != 3 {
		t.Errorf("a row changed before the regress: %+v", got)
	}
	untold := newLog(t, 15)
	untold.points = l.points
	if got := untold.verify(t, 0); got.Good() || got.Findings[0].Kind != Untold {
		t.Errorf("the database has gone back, and no node has noticed: %+v", got)
	}
}

func TestCheckpoint(t *testing.T) {
	skey, vkey, err := note.GenerateKey(rand.Reader, "node-a")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	known, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	l := newLog(t, 9)
	var file []byte
	for i := range l.points {
		signed, err := l.points[i].Sign(signer)
		if err != nil {
			t.Fatal(err)
		}
		file = append(append(file, signed...), '\n')
	}
	parts := Split(file)
	if len(parts) != 9 {
		t.Fatalf("%d checkpoints, want 9", len(parts))
	}
	for i, part := range parts {
		c, err := Open(part, note.VerifierList(known))
		if err != nil || c.text() != l.points[i].text() {
			t.Fatalf("checkpoint %d: %v\n%s", i, err, part)
		}
		forged := bytes.Replace(part, []byte("\nera 0"), []byte("\nera 1"), 1)
		if _, err := Open(forged, note.VerifierList(known)); err == nil {
			t.Fatal("a changed checkpoint is valid")
		}
	}
	if _, err := Open(parts[0], note.VerifierList()); err == nil {
		t.Error("a checkpoint of an unknown key is valid")
	}
	if torn := Split(file[:len(file)-50]); len(torn) != 9 {
		t.Errorf("%d parts of a torn file, want 9", len(torn))
	} else if _, err := Open(torn[8], note.VerifierList(known)); err == nil {
		t.Error("a torn checkpoint is valid")
	}
}

func TestFold(t *testing.T) {
	f := NewFold(0)
	for i := range 100_000 {
		f.Add(dag.Micros(i), store.Audit{Principal: fmt.Sprint("p", i%500), Action: "list-runs", Verb: "run.read"})
	}
	rows, total := f.Take(100_000), int64(0)
	if len(rows) > foldBurst {
		t.Fatalf("%d rows, at most %d", len(rows), foldBurst)
	}
	for _, r := range rows {
		total += r.Count
	}
	if total != 100_000 {
		t.Errorf("%d calls counted, want 100000", total)
	}
	day, n := dag.Micros(24*time.Hour/time.Microsecond), 0
	for now := dag.Micros(0); now < day; now += 60_000_000 {
		for i := range 300 {
			f.Add(now, store.Audit{Principal: fmt.Sprint("p", i)})
		}
		n += len(f.Take(now))
	}
	if n == 0 || n > 720 {
		t.Errorf("%d rows in a day of refusals", n)
	}
}

// TestFoldNamespaces: a list that shows values of two namespaces is a read of each of them.
func TestFoldNamespaces(t *testing.T) {
	f := NewReads(0)
	for _, ns := range []string{"shop", "web", "shop"} {
		f.Add(0, store.Audit{Principal: "ann", Verb: "run.values", Action: "GET /api/v1/runs", Object: "/runs", Namespace: ns})
	}
	got := map[string]int64{}
	for _, r := range f.Take(0) {
		got[r.Namespace] = r.Count
	}
	if len(got) != 2 || got["shop"] != 2 || got["web"] != 1 {
		t.Errorf("%v", got)
	}
}

func FuzzOpen(f *testing.F) {
	l := newLog(f, 3)
	f.Add(l.points[2].text())
	f.Add("skein\n1\nAAAA\nera 1 from 0\nat x\nedge \n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parse(text)
		if err == nil && c.text() != text {
			t.Errorf("%q reads as %q", text, c.text())
		}
	})
}

// FuzzVerify: every change of a covered row is noticed, however the attacker adapts the hashes.
func FuzzVerify(f *testing.F) {
	f.Add(uint8(3), uint8(0), "eve", true)
	f.Add(uint8(19), uint8(1), "", false)
	f.Add(uint8(0), uint8(2), "x", true)
	f.Fuzz(func(t *testing.T, at, how uint8, text string, mend bool) {
		l := newLog(t, 20)
		i := int(at) % len(l.rows)
		switch how % 4 {
		case 0:
			if l.rows[i].Principal == text {
				return
			}
			l.rows[i].Principal = text
		case 1:
			l.rows = slices.Delete(l.rows, i, i+1)
		case 2:
			r := row(30)
			r.Index, r.Detail = l.rows[i].Index, text
			l.rows = slices.Insert(l.rows, i, r)
		case 3:
			l.rows = l.rows[:i]
		}
		if mend {
			l.rewrite(t)
		}
		if got := l.verify(t, 0); got.Good() {
			t.Errorf("unnoticed: %d at %d, %q, %v: %+v", how%4, i, text, mend, got)
		}
	})
}
