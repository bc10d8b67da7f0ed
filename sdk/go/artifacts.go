package skein

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	api "skein.dev/skein/sdk/api/v1"
)

// Artifacts lists the files that an attempt of a task produced, by name. If attempt is 0, it lists those of
// the newest attempt that succeeded.
func (c *Client) Artifacts(ctx context.Context, run, task string, attempt int) ([]api.Artifact, error) {
	k := newCall(http.MethodGet, nil, "runs", run, "tasks", task, "artifacts")
	setInt(k.query, "attempt", int64(attempt))
	var page api.List[api.Artifact]
	_, err := c.do(ctx, k, &page)
	return page.Items, err
}

// ArtifactQuery selects an attempt and the part of an artifact to read.
type ArtifactQuery struct {
	Attempt int   // 0 selects the newest attempt that succeeded
	Offset  int64 // offset of the first byte
}

// Artifact is the content of a file that an attempt produced. The caller must close it.
type Artifact struct {
	io.ReadCloser
	Attempt int
	Size    int64  // bytes of the answer; -1 if unknown
	SHA256  string // SHA-256 of the whole file
}

// Artifact reads a file that an attempt of a task produced.
func (c *Client) Artifact(ctx context.Context, run, task, name string, q ArtifactQuery) (*Artifact, error) {
	k := newCall(http.MethodGet, nil, "runs", run, "tasks", task, "artifacts", name)
	setInt(k.query, "attempt", int64(q.Attempt))
	if q.Offset > 0 {
		k.header.Set("Range", "bytes="+strconv.FormatInt(q.Offset, 10)+"-")
	}
	resp, err := c.send(ctx, k)
	if err != nil {
		return nil, err
	}
	a := &Artifact{ReadCloser: resp.Body, Size: resp.ContentLength, SHA256: strings.Trim(resp.Header.Get("ETag"), `"`)}
	a.Attempt, _ = strconv.Atoi(resp.Header.Get(api.HeaderAttempt))
	return a, nil
}
