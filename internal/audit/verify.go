package audit

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// The kinds of findings.
const (
	Changed  = "changed"  // the content of a row does not match the hash of the row
	Removed  = "removed"  // rows in the middle were removed, or the oldest rows before the end of their retention
	Inserted = "inserted" // a row has the index of another one
	CutOff   = "cut_off"  // the newest rows were removed
	Replaced = "replaced" // rows fit their hashes, but not the checkpoints
	Late     = "late"     // a row is older than a checkpoint that does not cover the row
	Damaged  = "damaged"  // the state of the tree itself is damaged
	Untold   = "untold"   // the database has lost its newest transactions, and no node has noticed that
)

// lateMax is the time in which a row must get its index. The clocks of nodes and database may differ by as
// much.
const lateMax = 10 * time.Minute

// Finding is one sign of tampering.
type Finding struct {
	Kind     string
	From, To int64 // the indexes of the rows; To is not included
	// Since is the time of the first checkpoint that covers the original rows, so the change is later. It is
	// zero if no checkpoint covers them.
	Since time.Time
	// Before is the time of the last checkpoint that does not cover the rows.
	Before time.Time
	Text   string
}

// Regress is a loss of the database's newest transactions that the nodes have noticed. They have raised the
// era.
type Regress struct {
	Era      dag.Era // the era after the loss
	From, To int64   // the indexes of the lost rows; To is not included
	At       time.Time
}

// Report is the result of Verify.
type Report struct {
	First, Size int64 // the indexes of the rows that were read
	Covered     int64 // rows below this index are covered by a checkpoint
	Checkpoints int   // the number of checkpoints that were compared with the rows
	Older       int   // checkpoints of rows that retention has deleted
	Fresh       int   // rows without an index yet
	Findings    []Finding
	Regresses   []Regress
}

// Good reports whether there are no signs of tampering.
func (r *Report) Good() bool { return len(r.Findings) == 0 }

// Verifier compares rows with checkpoints. The caller passes the rows to Row in the order of their index.
type Verifier struct {
	tree store.AuditTree
	keep time.Duration
	all  []Checkpoint // the checkpoints that the rows must match, by size, then by time
	told []Checkpoint // the checkpoints of rows that the store has lost

	out   Report
	edge  edge
	next  int   // index in all of the next checkpoint to compare
	good  int   // the index in all of the last checkpoint that matched, or -1
	lost  bool  // rows are missing, so no later root can be computed
	wrong bool  // a checkpoint did not match, so no later one can
	at    int64 // the expected index
}

// NewVerifier begins a comparison with the state of the tree and the checkpoints of all nodes. Rows before
// tree.First may be missing if they are older than keep. 0 permits any age. now is the present time.
func NewVerifier(tree store.AuditTree, checkpoints []Checkpoint, keep time.Duration, now time.Time) *Verifier {
	v := &Verifier{tree: tree, keep: keep, good: -1, at: tree.First, out: Report{First: tree.First, Size: tree.Size}}
	e, err := newEdge(tree.First, tree.Head)
	if err != nil {
		v.find(Finding{Kind: Damaged, To: tree.First, Text: "the hashes of the rows that retention has deleted cannot be read: " + err.Error()})
		v.wrong = true
		e = edge{factory.NewEmptyRange(0)}
	}
	v.edge = e
	v.sort(checkpoints)
	v.forgotten(now)
	v.compare()
	return v
}

func (v *Verifier) find(f Finding) { v.out.Findings = append(v.out.Findings, f) }

// sort separates the checkpoints of rows that the database has lost, and records each such loss.
func (v *Verifier) sort(checkpoints []Checkpoint) {
	all := slices.Clone(checkpoints)
	sort.SliceStable(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(a.Era, b.Era), cmp.Compare(a.Size, b.Size), a.At.Compare(b.At)) < 0
	})
	newest := v.tree.Era
	began := map[dag.Era]Checkpoint{} // the first checkpoint of each era
	for _, c := range all {
		if _, there := began[c.Era]; !there {
			began[c.Era] = c
		}
		newest = max(newest, c.Era)
	}
	if _, there := began[v.tree.Era]; !there {
		began[v.tree.Era] = Checkpoint{Era: v.tree.Era, Base: v.tree.Base, At: time.Time{}}
	}
	if newest > v.tree.Era {
		v.find(Finding{Kind: Untold, From: v.tree.Size, To: v.tree.Size, Since: began[newest].At,
			Text: fmt.Sprintf("the database is in era %d, and a checkpoint names the later era %d: the database has gone back, and no node has noticed it", v.tree.Era, newest)})
	}
	if is := began[v.tree.Era]; is.Base != v.tree.Base && is.Era == v.tree.Era && is.Size > 0 {
		v.find(Finding{Kind: Damaged, From: min(is.Base, v.tree.Base), To: max(is.Base, v.tree.Base), Since: is.At,
			Text: fmt.Sprintf("era %d began at row %d, says a checkpoint; the database says at row %d", is.Era, is.Base, v.tree.Base)})
	}
	eras := make([]Checkpoint, 0, len(began))
	for _, c := range began {
		eras = append(eras, c)
	}
	sort.Slice(eras, func(i, j int) bool { return eras[i].Era < eras[j].Era })
	for _, c := range all {
		// This checkpoint covers lost rows. They differ from the rows that follow the base of a later era.
		lost := false
		for _, e := range eras {
			lost = lost || e.Era > c.Era && c.Size > e.Base
		}
		if lost {
			v.told = append(v.told, c)
		} else {
			v.all = append(v.all, c)
		}
	}
	for _, e := range eras {
		r := Regress{Era: e.Era, From: e.Base, To: e.Base, At: e.At}
		for _, c := range v.told {
			if c.Era < e.Era {
				r.To = max(r.To, c.Size)
			}
		}
		if r.To > r.From {
			v.out.Regresses = append(v.out.Regresses, r)
		}
	}
	sort.SliceStable(v.all, func(i, j int) bool {
		a, b := &v.all[i], &v.all[j]
		return cmp.Or(cmp.Compare(a.Size, b.Size), a.At.Compare(b.At)) < 0
	})
	for v.next < len(v.all) && v.all[v.next].Size < v.tree.First {
		v.good = v.next
		v.next++
		v.out.Older++
	}
}

// forgotten finds rows that were deleted before the end of their retention.
func (v *Verifier) forgotten(now time.Time) {
	if v.keep == 0 || v.good < 0 || v.tree.First == 0 {
		return
	}
	if c := &v.all[v.good]; c.Size < v.tree.First && now.Sub(c.At) < v.keep-lateMax {
		v.find(Finding{Kind: Removed, From: c.Size, To: v.tree.First, Before: c.At,
			Text: fmt.Sprintf("%s were deleted before their time: they came after the checkpoint of %s, and rows are kept for %s",
				rowsNamed(c.Size, v.tree.First), stamp(c.At), v.keep)})
	}
}

// compare compares the tree so far with the checkpoints of its size.
func (v *Verifier) compare() {
	for ; v.next < len(v.all) && v.all[v.next].Size <= v.at; v.next++ {
		c := &v.all[v.next]
		if v.lost || v.wrong || c.Size < v.at {
			continue
		}
		v.out.Checkpoints++
		if root, err := v.edge.root(); err == nil && bytes.Equal(root, c.Root) {
			v.good, v.out.Covered = v.next, c.Size
			continue
		}
		v.wrong = true
		f := Finding{Kind: Replaced, From: v.tree.First, To: c.Size, Since: c.At}
		if v.good >= 0 {
			f.From, f.Before = max(v.all[v.good].Size, v.tree.First), v.all[v.good].At
		}
		if c.Size == v.tree.First {
			f.From = 0
		}
		f.Text = fmt.Sprintf("%s are not those that the checkpoint of %s covers: some were changed, removed, inserted or swapped", rowsNamed(f.From, f.To), stamp(c.At))
		v.find(f)
	}
}

// around returns the first checkpoint that covers a row, and the last one before it that does not.
func (v *Verifier) around(index int64) (since, before time.Time) {
	for i := range v.all {
		if v.all[i].Size > index {
			return v.all[i].At, before
		}
		before = v.all[i].At
	}
	return since, before
}

// Row checks the next row of the log.
func (v *Verifier) Row(r *store.Audit) error {
	if r.Index < 0 {
		v.out.Fresh++
		return nil
	}
	since, before := v.around(r.Index)
	switch {
	case r.Index < v.at:
		v.find(Finding{Kind: Inserted, From: r.Index, To: r.Index + 1, Since: since, Before: before,
			Text: fmt.Sprintf("row %d is a duplicate, or does not belong here: %s", r.Index, words(r))})
		return nil
	case r.Index >= v.tree.Size:
		v.find(Finding{Kind: Inserted, From: r.Index, To: r.Index + 1, Since: since, Before: before,
			Text: fmt.Sprintf("row %d is beyond the size of the tree, %d: %s", r.Index, v.tree.Size, words(r))})
		return nil
	case r.Index > v.at:
		v.missing(r.Index)
	}
	hash := Hash(r)
	if !bytes.Equal(hash, r.Hash) {
		v.find(Finding{Kind: Changed, From: r.Index, To: r.Index + 1, Since: since, Before: before,
			Text: fmt.Sprintf("row %d was changed; it says now: %s", r.Index, words(r))})
	}
	// Counted calls may be written late: a node counts them while the database does not answer.
	if r.Outcome != store.AuditRefused && r.Outcome != store.AuditRead && !before.IsZero() && r.Last.Time().Before(before.Add(-lateMax)) {
		v.find(Finding{Kind: Late, From: r.Index, To: r.Index + 1, Since: since, Before: before,
			Text: fmt.Sprintf("row %d says that it is of %s, but the checkpoint of %s does not cover it: %s", r.Index, stamp(r.Last.Time()), stamp(before), words(r))})
	}
	// The tree continues with the hash in the row. So only the changed row is reported, and later rows can
	// still be proved.
	if len(r.Hash) != store.AuditHashBytes {
		r.Hash = hash
	}
	if err := v.edge.append(r.Hash); err != nil {
		return fmt.Errorf("verify row %d of the audit log: %w", r.Index, err)
	}
	v.at = r.Index + 1
	v.compare()
	return nil
}

// missing records that the rows before an index do not exist. Without their hashes, no later root can be
// computed.
func (v *Verifier) missing(until int64) {
	since, before := v.around(v.at)
	v.find(Finding{Kind: Removed, From: v.at, To: until, Since: since, Before: before, Text: rowsNamed(v.at, until) + " are missing"})
	v.lost, v.at = true, until
	v.edge = edge{factory.NewEmptyRange(uint64(until))}
}

// Report ends the comparison.
func (v *Verifier) Report() Report {
	if v.at < v.tree.Size {
		v.cut(v.at, v.tree.Size, "the database says that the log has %d rows")
	} else if last := len(v.all) - 1; last >= 0 && v.all[last].Size > v.tree.Size {
		v.cut(v.tree.Size, v.all[last].Size, "a checkpoint says that the log has %d rows")
	}
	if v.at == v.tree.Size && !v.lost && !v.wrong {
		if !bytes.Equal(v.edge.packed(), v.tree.Edge) {
			v.find(Finding{Kind: Damaged, From: v.out.Covered, To: v.tree.Size,
				Text: "the hashes of the tree in the database do not fit the rows"})
		}
	}
	return v.out
}

func (v *Verifier) cut(from, to int64, why string) {
	since, before := v.around(from)
	v.find(Finding{Kind: CutOff, From: from, To: to, Since: since, Before: before,
		Text: fmt.Sprintf("%s, the newest ones, were cut off: "+why, rowsNamed(from, to), to)})
}

func rowsNamed(from, to int64) string {
	if to == from+1 {
		return fmt.Sprintf("row %d", from)
	}
	return fmt.Sprintf("rows %d to %d", from, to-1)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// words describes in a few words the subject of a row.
func words(r *store.Audit) string {
	return fmt.Sprintf("%s %s %s %s by %s", stamp(r.At.Time()), r.Outcome, r.Action, r.Object, cmp.Or(r.Principal, "an unknown caller"))
}
