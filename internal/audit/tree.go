package audit

import (
	"bytes"
	"fmt"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var factory = &compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}

// edge is the right edge of a tree: the hashes of the full subtrees over its first rows. It permits adding a
// row without the earlier rows.
type edge struct{ *compact.Range }

// newEdge returns the edge of a tree of a size from its packed hashes.
func newEdge(size int64, packed []byte) (edge, error) {
	if size < 0 || len(packed)%store.AuditHashBytes != 0 {
		return edge{}, fmt.Errorf("the edge of a tree of %d rows has %d bytes: it must have hashes of %d bytes", size, len(packed), store.AuditHashBytes)
	}
	var hashes [][]byte
	for at := 0; at < len(packed); at += store.AuditHashBytes {
		hashes = append(hashes, bytes.Clone(packed[at:at+store.AuditHashBytes]))
	}
	r, err := factory.NewRange(0, uint64(size), hashes)
	if err != nil {
		return edge{}, fmt.Errorf("the edge of a tree of %d rows: %w", size, err)
	}
	return edge{r}, nil
}

func (e edge) size() int64 { return int64(e.End()) }

func (e edge) packed() []byte { return bytes.Join(e.Hashes(), nil) }

func (e edge) append(hash []byte) error { return e.Append(hash, nil) }

// root returns the root of the tree.
func (e edge) root() ([]byte, error) {
	if e.size() == 0 {
		return rfc6962.DefaultHasher.EmptyRoot(), nil
	}
	return e.GetRootHash(nil)
}

// Grow adds rows to the tree, in their order. It returns the next state of the tree and the hashes of the
// rows. If the era has risen, the next state says at which size it began.
func Grow(t store.AuditTree, era dag.Era, rows []store.Audit) (store.AuditTree, []store.AuditLeaf, error) {
	e, err := newEdge(t.Size, t.Edge)
	if err != nil {
		return t, nil, err
	}
	if era > t.Era {
		t.Era, t.Base = era, t.Size
	}
	leaves := make([]store.AuditLeaf, len(rows))
	for i := range rows {
		leaves[i] = store.AuditLeaf{ID: rows[i].ID, Hash: Hash(&rows[i])}
		if err := e.append(leaves[i].Hash); err != nil {
			return t, nil, fmt.Errorf("add a row to the tree: %w", err)
		}
	}
	t.Size, t.Edge = e.size(), e.packed()
	return t, leaves, nil
}

// Forget removes the oldest rows from the tree. rows are the rows from First on, in order. The rest of the
// tree can still be proved, because the hashes of the removed rows become part of the head. Forget refuses
// rows that do not match their hashes, because they are evidence.
func Forget(t store.AuditTree, rows []store.Audit) (store.AuditTree, error) {
	e, err := newEdge(t.First, t.Head)
	if err != nil {
		return t, err
	}
	for i := range rows {
		r := &rows[i]
		if r.Index != e.size() {
			return t, fmt.Errorf("row %d of the audit log is missing; run skein audit verify", e.size())
		}
		hash := Hash(r)
		if !bytes.Equal(hash, r.Hash) {
			return t, fmt.Errorf("row %d of the audit log was changed; run skein audit verify", r.Index)
		}
		if err := e.append(hash); err != nil {
			return t, fmt.Errorf("forget row %d of the audit log: %w", r.Index, err)
		}
	}
	if e.size() > t.Size {
		return t, fmt.Errorf("the audit log has rows beyond its size of %d; run skein audit verify", t.Size)
	}
	t.First, t.Head = e.size(), e.packed()
	return t, nil
}
