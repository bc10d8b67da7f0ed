package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.AuditLog = (*DB)(nil)

// audits implements store.AuditLog for the database that embeds it.
type audits struct{ d *DB }

// auditArgs returns the parameters of insertAudit.
func auditArgs(r *store.Audit) args {
	return args{}.id(dag.RunID(r.Key)).int8(int64(r.At)).int8(int64(r.Last)).int8(r.Count).text(r.Principal).text(r.Kind).int8(r.Token).int8(r.Session).
		text(r.Address).text(r.Verb).text(r.Action).text(r.Object).text(r.Namespace).text(r.Outcome).text(r.Request).text(r.Detail)
}

// AddAudit implements store.AuditLog.
func (e audits) AddAudit(ctx context.Context, rows ...store.Audit) error {
	all := make([]query, len(rows))
	for i := range rows {
		all[i] = query{name: "insertAudit", args: auditArgs(&rows[i])}
	}
	return e.d.alter(ctx, "write audit rows", nil, all...)
}

// audit sends the audit rows of a batch.
func (x *tx) audit(b *store.Batch) {
	for i := range b.Audit {
		x.send("insertAudit", auditArgs(&b.Audit[i]))
	}
}

// noted adds the audit row of a call to the statements of its change. Each of these statements fails if it
// changes no row.
func noted(ctx context.Context, all []query) []query {
	if row, ok := store.AuditOf(ctx); ok {
		all = append(all, query{name: "insertAudit", args: auditArgs(&row)})
	}
	return all
}

// notedNames are the statements of changes that return the rows that they change.
var notedNames = []string{"insertToken", "revokeToken", "rotateToken", "joinToken", "renewToken", "putClass", "dropClass", "insertSession", "endSession", "putSecret", "dropSecret", "setSecretKey", "putAlertChannel", "dropAlertChannel", "putSilence", "endSilence", "putAlertRules", "putConnection", "dropConnection", "putGitSource", "dropGitSource", "putNamespace",
	"move", "order", "withdraw"}

// notedSuffix ends the names of statements that write an audit row with their change.
const notedSuffix = "+audit"

var commented = regexp.MustCompile(`(?m)^--.*\n`)

var numbered = regexp.MustCompile(`\$([0-9]+)`)

// notedSQL returns a statement that changes rows and returns them, with the insert of an audit row. The audit
// row is written if a row has changed. The parameters of the audit row follow the parameters of the
// statement.
func notedSQL(sql, insert string) string {
	sql, insert = strings.TrimRight(commented.ReplaceAllString(sql, ""), "; \n"), strings.TrimRight(insert, "; \n")
	most := 0
	for _, m := range numbered.FindAllStringSubmatch(sql, -1) {
		n, _ := strconv.Atoi(m[1])
		most = max(most, n)
	}
	insert = numbered.ReplaceAllStringFunc(insert, func(p string) string {
		n, _ := strconv.Atoi(p[1:])
		return "$" + strconv.Itoa(n+most)
	})
	insert = strings.Replace(insert, "ON CONFLICT", "WHERE EXISTS (SELECT FROM did) ON CONFLICT", 1)
	before, change := "WITH ", sql
	if at := changeAt(sql); at > 0 { // the statement begins with WITH, and a part that changes rows must be at its top level
		before, change = strings.TrimRight(sql[:at], " \n")+",\n", sql[at:]
	}
	return before + "did AS (" + change + "), noted AS (" + insert + ")\nSELECT * FROM did;"
}

// changeAt returns where the change of a statement begins, after the parts of its WITH.
func changeAt(sql string) int {
	depth := 0
	for i := range sql {
		switch sql[i] {
		case '(':
			depth++
		case ')':
			depth--
		case 'I', 'U', 'D':
			rest := sql[i:]
			if depth == 0 && (strings.HasPrefix(rest, "INSERT ") || strings.HasPrefix(rest, "UPDATE ") || strings.HasPrefix(rest, "DELETE ")) {
				return i
			}
		}
	}
	return 0
}

// notedQuery extends q so that the same statement also writes the audit row of the call. q must return the
// rows that it changes. Without an audit row in ctx, notedQuery returns q unchanged.
func notedQuery(ctx context.Context, q query) query {
	if row, ok := store.AuditOf(ctx); ok {
		q.name += notedSuffix
		q.args = append(q.args, auditArgs(&row)...)
	}
	return q
}

// AuditFresh implements store.AuditLog.
func (e audits) AuditFresh(ctx context.Context, limit int) ([]store.Audit, error) {
	return list(ctx, e.d, query{name: "auditFresh", args: args{}.int8(int64(limit))}, scanAudit)
}

// AuditTree implements store.AuditLog.
func (e audits) AuditTree(ctx context.Context) (store.AuditTree, error) {
	t, err := first(ctx, e.d, query{name: "auditTree"}, func(r *row, t *store.AuditTree) error {
		t.Size, t.First, t.Head, t.Edge, t.Era, t.Base = r.int(), r.int(), r.blob(), r.blob(), dag.Era(r.int()), r.int()
		return r.damaged("the tree of the audit log")
	})
	if errors.Is(err, store.ErrNotFound) {
		return store.AuditTree{}, nil
	}
	return t, err
}

func treeArgs(size, first int64, to *store.AuditTree) args {
	return args{}.int8(size).int8(first).int8(to.Size).int8(to.First).blob(append([]byte{}, to.Head...)).blob(append([]byte{}, to.Edge...)).int8(int64(to.Era)).int8(to.Base)
}

// GrowAudit implements store.AuditLog.
func (e audits) GrowAudit(ctx context.Context, size int64, to store.AuditTree, rows []store.AuditLeaf) error {
	var ids, indexes []int64
	hashes := newColumn(oidBytea)
	for i := range rows {
		ids, indexes = append(ids, rows[i].ID), append(indexes, size+int64(i))
		hashes.add(rows[i].Hash)
	}
	all := []query{{name: "moveAuditTree", args: treeArgs(size, to.First, &to)}}
	if len(rows) > 0 {
		all = append(all, query{name: "indexAudit", args: args{}.array(int8s(ids)).array(int8s(indexes)).array(hashes)})
	}
	return e.d.alter(ctx, "give audit rows an index", nil, all...)
}

// ForgetAudit implements store.AuditLog.
func (e audits) ForgetAudit(ctx context.Context, from, to store.AuditTree) error {
	return e.d.alter(ctx, "delete audit rows", nil, query{name: "moveAuditTree", args: treeArgs(from.Size, from.First, &to)},
		query{name: "dropAudit", args: args{}.int8(to.First)})
}

// AuditLeaves implements store.AuditLog.
func (e audits) AuditLeaves(ctx context.Context, from int64, limit int) ([]store.Audit, error) {
	return list(ctx, e.d, query{name: "auditLeaves", args: args{}.int8(from).int8(int64(limit))}, scanAudit)
}

// AuditList implements store.AuditLog.
func (e audits) AuditList(ctx context.Context, q store.AuditQuery) ([]store.Audit, error) {
	at, id := q.Edge()
	a := args{}.int8(int64(at)).int8(id).int8(int64(q.Since)).text(q.Principal).text(q.Verb).text(q.In()).int8(int64(q.Limit))
	return list(ctx, e.d, query{name: "auditRows", args: a}, scanAudit)
}

func scanAudit(r *row, a *store.Audit) error {
	a.ID = r.int()
	key, err := uuid.FromBytes(r.blob())
	if err != nil {
		return fmt.Errorf("audit row %d: its key: %w: %w", a.ID, store.ErrCorrupt, err)
	}
	a.Key, a.Index, a.Hash, a.At, a.Last, a.Count = key, r.int(), r.blob(), r.micros(), r.micros(), r.int()
	a.Principal, a.Kind, a.Token, a.Session, a.Address = r.text(), r.text(), r.int(), r.int(), r.text()
	a.Verb, a.Action, a.Object, a.Namespace = r.text(), r.text(), r.text(), r.text()
	a.Outcome, a.Request, a.Detail = r.text(), r.text(), r.text()
	return r.damaged("audit row %d", a.ID)
}
