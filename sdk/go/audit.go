package skein

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	api "skein.dev/skein/sdk/api/v1"
)

// Audit reads the audit log of a server.
type Audit struct{ c *Client }

// NewAudit returns the Audit of a client's server.
func NewAudit(c *Client) Audit { return Audit{c} }

// AuditQuery selects rows. An empty field selects all.
type AuditQuery struct {
	Namespace, Principal, Verb string
	Since                      time.Time
	Cursor                     string
	Limit                      int
}

// List lists a page of rows, newest first.
func (a Audit) List(ctx context.Context, q AuditQuery) (page api.List[api.AuditRow], err error) {
	k := newCall(http.MethodGet, nil, "audit")
	if k.query = pageQuery(q.Cursor, q.Limit); k.query == nil {
		k.query = url.Values{}
	}
	for name, v := range map[string]string{"namespace": q.Namespace, "principal": q.Principal, "verb": q.Verb} {
		if v != "" {
			k.query.Set(name, v)
		}
	}
	if !q.Since.IsZero() {
		k.query.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	_, err = a.c.do(ctx, k, &page)
	return page, err
}

// Export returns the whole log with its hashes as lines of JSON, oldest first. The caller must close it.
func (a Audit) Export(ctx context.Context) (io.ReadCloser, error) {
	k := newCall(http.MethodGet, nil, "audit")
	k.verb = "export"
	resp, err := a.c.send(ctx, k)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
