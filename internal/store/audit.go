package store

import (
	"context"
	"math"
	"strings"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
)

// The outcomes of audited calls.
const (
	AuditDone    = "done"    // the transaction that wrote the row also made the change
	AuditRefused = "refused" // refused calls; Count is their number
	AuditRead    = "read"    // calls that read a log, an artifact or a value; Count is their number
)

const (
	// AuditHashBytes is the length of a hash of the tree.
	AuditHashBytes = 32
	// AuditTextMax bounds one text of an audit row, in bytes.
	AuditTextMax = 500
)

// Audit is one row of the audit log: a change, or refused calls of one kind. Everything but ID, Index and
// Hash is part of its leaf in the tree.
type Audit struct {
	ID  int64     // set by the store
	Key uuid.UUID // identifies a change, so that a repeated write makes only one row
	// Index is the position in the tree, from 0, or -1 if the row has no position yet. Hash is the hash of
	// its leaf.
	Index int64
	Hash  []byte

	// At is the time of the change, or of the first refused call. If it is 0, the store sets At and Last.
	At        dag.Micros
	Last      dag.Micros // the time of the last refused call; for a change the same as At
	Count     int64      // the number of refused calls; 1 for a change
	Principal string     // the user or service for whom the call was made
	Kind      string     // user, service, local, …; "" if the caller is unknown
	Token     int64      // the id of the API token of the call; 0 if there was none
	Session   int64      // the id of the session of the call; 0 if there was none
	Address   string     // the address of the caller
	Verb      string     // the verb that the call needs
	Action    string     // the action: the operation of the API
	Object    string     // the object of the action
	Namespace string     // "" means the whole cluster
	Outcome   string
	Request   string // the caller's id of the request
	Detail    string // a few words; no secret and no value of a parameter
}

// AuditTree is the state of the tree of audit rows (RFC 6962).
type AuditTree struct {
	Size int64 // number of rows that have an index
	// First is the index of the oldest kept row. Head has the hashes of the subtrees over the rows before
	// First. Edge has the hashes of the subtrees over all rows that have an index.
	First      int64
	Head, Edge []byte
	// Era is the era of the database at the last change of the tree, and Base the size of the tree when that
	// era began.
	Era  dag.Era
	Base int64
}

// AuditLeaf is a row that gets a position in the tree, with the hash of its leaf.
type AuditLeaf struct {
	ID   int64
	Hash []byte
}

// AuditQuery selects rows for people: the newest first, by At and then by ID.
type AuditQuery struct {
	// Before and BeforeAt are the ID and the At of a row. The query selects only the rows that follow this
	// row in the order of the query. If Before is 0, the query begins with the newest row.
	Before     int64
	BeforeAt   dag.Micros
	Since      dag.Micros // only rows at or after this time; 0 means all
	Principal  string     // "" means any
	Verb       string     // "" means any
	Namespaces []string   // nil means any
	Limit      int
}

// Edge returns the edge of a page, as a time and an ID. The rows of the page are older than the time, or have
// the same time and a lower ID.
func (q *AuditQuery) Edge() (at dag.Micros, id int64) {
	if q.Before == 0 {
		return math.MaxInt64, math.MaxInt64
	}
	return q.BeforeAt, q.Before
}

// In returns the namespaces as a text for engines: each in angle brackets, and "*" for all namespaces.
func (q *AuditQuery) In() string {
	if q.Namespaces == nil {
		return "*"
	}
	var in strings.Builder
	for _, ns := range q.Namespaces {
		in.WriteString("<" + ns + ">")
	}
	return in.String()
}

// AuditLog is the part of a store that keeps the audit log. A change is written with its row in one
// transaction: see WithAudit and Batch.Audit. The rows get their index afterwards, so no writer waits for
// another one.
type AuditLog interface {
	// AddAudit writes rows that belong to no change of the store. A row whose Key exists is not written
	// again.
	AddAudit(ctx context.Context, rows ...Audit) error
	// AuditFresh reads at most limit rows without an index, ordered by ID.
	AuditFresh(ctx context.Context, limit int) ([]Audit, error)
	// AuditTree reads the state of the tree.
	AuditTree(ctx context.Context) (AuditTree, error)
	// GrowAudit gives indexes to rows, in their order, beginning with the index size. It stores the parameter
	// to as the new state of the tree. It returns ErrFenced if the tree has another size, or if a row already
	// has an index or does not exist.
	GrowAudit(ctx context.Context, size int64, to AuditTree, rows []AuditLeaf) error
	// AuditLeaves reads at most limit rows from an index on, ordered by index.
	AuditLeaves(ctx context.Context, from int64, limit int) ([]Audit, error)
	// AuditList reads rows for people.
	AuditList(ctx context.Context, q AuditQuery) ([]Audit, error)
	// ForgetAudit deletes the rows with an index below to.First, and stores the parameter to as the new state
	// of the tree. It returns ErrFenced if the present tree differs from the parameter from in its size or
	// its First.
	ForgetAudit(ctx context.Context, from, to AuditTree) error
}

type auditKey struct{}

// WithAudit makes the changes of a call write an audit row in their transaction. The caller may complete the
// row until the change is made. The store sets At, Last, Count and Outcome.
func WithAudit(ctx context.Context, row *Audit) context.Context {
	return context.WithValue(ctx, auditKey{}, row)
}

// AuditIn returns the row that WithAudit has stored in a context, or nil.
func AuditIn(ctx context.Context) *Audit {
	row, _ := ctx.Value(auditKey{}).(*Audit)
	return row
}

// AuditOf returns the row of one change, as WithAudit has prepared it. ok is false if the call is not
// audited. At is 0, because the store sets At and Last.
func AuditOf(ctx context.Context) (row Audit, ok bool) {
	is := AuditIn(ctx)
	if is == nil {
		return row, false
	}
	row = *is
	row.Clean()
	row.Key, row.Index, row.At, row.Last, row.Count, row.Outcome = uuid.New(), -1, 0, 0, 1, AuditDone
	return row, true
}

// Clean makes the texts of a row valid for a store, because they may come from callers.
func (r *Audit) Clean() {
	for _, text := range [...]*string{&r.Principal, &r.Kind, &r.Address, &r.Verb, &r.Action, &r.Object, &r.Namespace, &r.Request, &r.Detail} {
		*text = strings.ToValidUTF8(strings.ReplaceAll(*text, "\x00", "�"), "�")
		if len(*text) > AuditTextMax {
			*text = strings.ToValidUTF8((*text)[:AuditTextMax], "")
		}
	}
}
