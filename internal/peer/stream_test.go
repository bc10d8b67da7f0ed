package peer

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"skein.dev/skein/internal/store"
)

// TestDownloadContinues: if the node of a log breaks off while the log is downloaded, the rest comes from the
// copy, also if the answer had a length. A copy that is too short cuts the answer off, so that the client
// notices it.
func TestDownloadContinues(t *testing.T) {
	const log, sent = "0123456789", 5
	for _, c := range []struct {
		query  string
		length int // the length in the answer of the far node; -1 if there is none
		copied string
		want   string
		cut    bool
	}{
		{query: "", length: len(log), copied: log, want: log},
		{query: "", length: -1, copied: log, want: log},
		{query: "?line=1", length: -1, copied: log, want: log},
		{query: "?limit=7", length: -1, copied: log, want: log[:7]},
		{query: "", length: len(log), copied: log[:8], want: log[:8], cut: true},
	} {
		far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(headerLogOffset, "0")
			if c.length >= 0 {
				w.Header().Set("Content-Length", strconv.Itoa(c.length))
			}
			_, _ = io.WriteString(w, log[:sent])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}))
		here := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get(HeaderHere) == "" {
				w.Header().Set(HeaderElsewhere, "handler 2")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			q := r.URL.Query()
			from, err := strconv.Atoi(q.Get("offset"))
			if err != nil || q.Get("line") != "" {
				t.Errorf("the rest is read from %q", r.URL.RawQuery)
			}
			rest := c.copied[from:]
			if limit, err := strconv.Atoi(q.Get("limit")); err == nil {
				rest = rest[:limit]
			}
			_, _ = io.WriteString(w, rest)
		})
		dir := &mortal{village{self: store.Member{Handler: 1}, owner: store.Member{Handler: 2, Address: far.URL, Name: "far"}}, false}
		near := httptest.NewServer(Gateway(here, dir, http.DefaultTransport, unproved, slog.New(slog.DiscardHandler)))
		resp, err := http.Get(near.URL + "/api/v1/runs/1/tasks/a/logs" + c.query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if string(got) != c.want || c.cut != errors.Is(err, io.ErrUnexpectedEOF) || !c.cut && err != nil {
			t.Errorf("%s: %q, want %q: %v", fmt.Sprint(c), got, c.want, err)
		}
		_ = resp.Body.Close() // the body was read
		near.Close()
		far.Close()
	}
}
