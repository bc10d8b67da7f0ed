package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/audit"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

type listAuditIn struct {
	Page
	Namespace string `query:"namespace" maxLength:"63" doc:"Only rows of this namespace."`
	Principal string `query:"principal" maxLength:"200" doc:"Only calls on behalf of this user."`
	Verb      string `query:"verb" maxLength:"40" doc:"Only calls that need this verb."`
	Since     string `query:"since" doc:"RFC 3339: only rows that are not older."`
}

func auditRoutes(s *Server, log tag) {
	of := auditLog{s}
	route(s, log.get("/audit", "list-audit", "List who changed what and started which run, and which calls were refused, newest first"), of.list)
	route(s, streaming(log.get("/audit:export", "export-audit", "Read the whole audit log with its hashes, oldest first"), auditLines, exportDoc), of.export)
}

const exportDoc = "Lines of JSON: the state of the tree, then each row. skein audit verify reads them."

// auditLog are the routes of the audit log.
type auditLog struct{ s *Server }

func (a auditLog) rows() (store.AuditLog, error) {
	if a.s.cfg.Audits == nil {
		return nil, notFound("this process has no audit log; ask a node")
	}
	return a.s.cfg.Audits, nil
}

// auditPlace is the cursor of a list that merges rows and starts of runs. It contains the last shown row and
// the last shown start.
type auditPlace struct {
	Row int64      `json:"row,omitempty"` // -1 if all rows were shown
	At  dag.Micros `json:"at,omitempty"`  // At of Row
	Run dag.RunID  `json:"run,omitzero"`
	End bool       `json:"end,omitempty"` // all starts were shown
}

func (a auditLog) list(ctx context.Context, in *listAuditIn) (*jsonOut[api.List[api.AuditRow]], error) {
	log, err := a.rows()
	if err != nil {
		return nil, err
	}
	text, err := in.after()
	if err != nil {
		return nil, err
	}
	at := auditPlace{}
	if text != "" && (json.Unmarshal([]byte(text), &at) != nil || at.Row > 0 && at.At == 0) {
		return nil, badCursor()
	}
	since, err := instantOf("since", in.Since)
	if err != nil {
		return nil, err
	}
	q := store.AuditQuery{Before: at.Row, BeforeAt: at.At, Since: since, Principal: in.Principal, Verb: in.Verb, Limit: in.Limit}
	if in.Namespace != "" {
		q.Namespaces = []string{in.Namespace}
	}
	var rows []store.Audit
	if at.Row >= 0 {
		if rows, err = log.AuditList(ctx, q); err != nil {
			return nil, unread(err)
		}
	}
	starts, after, err := a.starts(ctx, in, &at, since)
	if err != nil {
		return nil, err
	}
	return mergedAudit(in.Limit, rows, starts, at, after), nil
}

// auditStart is the start of a run in the list.
type auditStart struct {
	api.AuditRow
	id dag.RunID
}

// starts returns a page of the starts of runs by people and programs, and the next cursor. The zero cursor
// means that there are no more.
func (a auditLog) starts(ctx context.Context, in *listAuditIn, at *auditPlace, since dag.Micros) (out []auditStart, after dag.RunID, err error) {
	if at.End || in.Verb != "" && in.Verb != access.RunStart.String() {
		return nil, dag.RunID{}, nil
	}
	page, err := a.s.runsOf(ctx, store.RunQuery{Namespace: in.Namespace, User: in.Principal, Since: since, Before: at.Run, Limit: in.Limit})
	if err != nil {
		return nil, dag.RunID{}, err
	}
	for i := range page.Runs {
		v := &page.Runs[i]
		switch v.Origin {
		case dag.OriginSchedule, dag.OriginSensor, dag.OriginBackfill, dag.OriginParent:
			continue // the scheduler or a task has started it
		}
		when, by := api.Time{Time: v.Created.Time()}, v.User
		if unproven(&v.Header) {
			by = enqueued + "? (" + v.User + ")"
		}
		name := fullName(v.Workflow.Namespace, v.Workflow.Name)
		out = append(out, auditStart{api.AuditRow{At: when, LastAt: when, Count: 1, Principal: by, Verb: access.RunStart.String(), Action: "start-run",
			Object: "/runs/" + v.ID.String(), Namespace: v.Workflow.Namespace, Outcome: store.AuditDone, Detail: name}, v.ID})
	}
	return out, page.Next, nil
}

// mergedAudit merges a page of rows and a page of starts by time. It ends with the page that ends first,
// because the next entry of that page may be newer than the remaining entries of the other page.
func mergedAudit(limit int, rows []store.Audit, starts []auditStart, at auditPlace, after dag.RunID) *jsonOut[api.List[api.AuditRow]] {
	moreRows, moreStarts := len(rows) == limit, !after.IsZero()
	out := []api.AuditRow{}
	for len(out) < limit && (len(rows) > 0 || len(starts) > 0) {
		if len(rows) == 0 && moreRows || len(starts) == 0 && moreStarts {
			break
		}
		if len(rows) == 0 || len(starts) > 0 && starts[0].At.After(rows[0].At.Time()) {
			out, at.Run, starts = append(out, starts[0].AuditRow), starts[0].id, starts[1:]
			continue
		}
		out, at.Row, at.At, rows = append(out, auditRowOf(&rows[0])), rows[0].ID, rows[0].At, rows[1:]
	}
	if len(starts) == 0 && moreStarts {
		at.Run = after // the cursor also skips entries that are not shown
	}
	if len(rows) == 0 && !moreRows {
		at.Row, at.At = -1, 0
	}
	at.End = at.End || len(starts) == 0 && !moreStarts
	if at.Row == -1 && at.End {
		return list(out, "")
	}
	next, _ := json.Marshal(at) // numbers and an id can always be encoded
	return list(out, string(next))
}

func auditRowOf(r *store.Audit) api.AuditRow {
	out := api.AuditRow{ID: r.ID, At: api.Time{Time: r.At.Time()}, LastAt: api.Time{Time: r.Last.Time()}, Count: r.Count, Principal: r.Principal, Kind: r.Kind,
		Address: r.Address, Verb: r.Verb, Action: r.Action, Object: r.Object, Namespace: r.Namespace, Outcome: r.Outcome, Request: r.Request, Detail: r.Detail}
	number := func(n, none int64) *int64 {
		if n == none {
			return nil
		}
		return &n
	}
	out.TokenID, out.SessionID, out.Index = number(r.Token, 0), number(r.Session, 0), number(r.Index, -1)
	return out
}

// auditLines is the media type of an export.
const auditLines = "application/x-ndjson"

// export writes the state of the tree and all its rows.
func (a auditLog) export(ctx context.Context, _ *struct{}) (*streamOut, error) {
	log, err := a.rows()
	if err != nil {
		return nil, err
	}
	head := audit.Head{}
	if head.Tree, err = log.AuditTree(ctx); err != nil {
		return nil, unread(err)
	}
	info, err := a.s.engine.Info(ctx)
	if err != nil {
		return nil, err
	}
	if head.Origin = audit.NewOrigin(info.Cluster); a.s.cfg.AuditKeep != nil {
		head.Keep = a.s.cfg.AuditKeep()
	}
	return &streamOut{Body: func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		w.Header().Set("Content-Type", auditLines)
		if err := audit.Export(hc.Context(), head, log, deadlined{w}); err != nil {
			a.s.log.Warn("an export of the audit log ended early", "code", "audit_export_ended", "err", err)
			panic(http.ErrAbortHandler) // closing the connection shows the client that the answer is incomplete
		}
	}}, nil
}

// deadlined sets a deadline for each write of a stream.
type deadlined struct{ http.ResponseWriter }

func (d deadlined) Write(b []byte) (int, error) {
	err := http.NewResponseController(d.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return d.ResponseWriter.Write(b)
}
