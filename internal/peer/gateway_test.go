package peer

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// mortal is a village whose owner may be declared dead.
type mortal struct {
	village
	dead bool
}

func (m *mortal) Alive(dag.HandlerID) bool { return !m.dead }

// TestGateway sends a request to a node that does not own the shard. Whatever happens to the owner, the
// request is answered once: by the owner, or by this node, which may then post the verb.
func TestGateway(t *testing.T) {
	frozen := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // only after this read does the server notice that the client has gone
		<-r.Context().Done()
	}
	for _, c := range []struct {
		name  string
		owner http.HandlerFunc // nil if the owner does not listen
		dead  bool             // the owner is declared dead while it has the request
		post  bool             // the request may be posted
		get   bool             // the request is a read
		want  string
	}{
		{name: "a read of the owner", get: true, owner: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "owner") }, want: "200 owner"},
		{name: "a read while it does not listen", get: true, want: "200 from rows"},
		{name: "a read while it is frozen, and taken for dead", get: true, owner: frozen, dead: true, want: "200 from rows"},
		{name: "the owner answers", owner: func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = w.Write(append([]byte("owner: "), body...))
		}, post: true, want: "200 owner: stop it"},
		{name: "it does not listen", post: true, want: "202 posted: stop it"},
		{name: "it is frozen, and taken for dead", owner: frozen, dead: true, post: true, want: "202 posted: stop it"},
		{name: "what cannot be posted", want: `503 "code":"unavailable"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			far := httptest.NewServer(c.owner)
			defer far.Close()
			if c.owner == nil {
				far.Close()
			}
			here := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if body, _ := io.ReadAll(r.Body); c.post && engine.PostingAllowed(r.Context()) {
					w.WriteHeader(http.StatusAccepted)
					_, _ = w.Write(append([]byte("posted: "), body...))
					return
				}
				if c.get && inspect.RowsOnly(r.Context()) {
					_, _ = io.WriteString(w, "from rows")
					return
				}
				w.Header().Set(HeaderElsewhere, "shard 3")
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			dir := &mortal{village{self: store.Member{Handler: 1}, owner: store.Member{Handler: 2, Address: far.URL, Name: "far"}}, c.dead}
			near := httptest.NewServer(Gateway(here, dir, http.DefaultTransport, unproved, slog.New(slog.DiscardHandler)))
			defer near.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			method, path, body := http.MethodPost, "/api/v1/runs/1:stop", io.Reader(strings.NewReader("stop it"))
			if c.get {
				method, path, body = http.MethodGet, "/api/v1/runs/1/explain", nil
			}
			req, err := http.NewRequestWithContext(ctx, method, near.URL+path, body)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			said, err := io.ReadAll(resp.Body)
			if got := resp.Status[:4] + string(said); err != nil || got != c.want && !strings.Contains(got, c.want[4:]) || got[:3] != c.want[:3] {
				t.Errorf("%s, want %s: %v", got, c.want, err)
			}
		})
	}
}

// TestGatewayVouches: a request that is passed on names its caller by a proof of this node. The proof covers
// the whole body. Headers that only a browser or a stranger can send are removed.
func TestGatewayVouches(t *testing.T) {
	const query = "a=1;b=2&c=%zz" // a proxy would drop both parameters
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		for _, elsewhere := range []string{"shard 3", "handler 2"} {
			got := make(chan http.Header, 1)
			far := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				h := r.Header.Clone()
				h.Set("X-Skein-Came", r.URL.RawQuery)
				got <- h
			}))
			defer far.Close()
			here := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(HeaderElsewhere, elsewhere)
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			dir := &mortal{village: village{self: store.Member{Handler: 1}, owner: store.Member{Handler: 2, Address: far.URL, Name: "far"}}}
			vouch := func(r *http.Request, body []byte) error {
				r.Header.Set("X-Skein-Principal", fmt.Sprintf("%s?%s %q", r.URL.Path, r.URL.RawQuery, body))
				return nil
			}
			r := httptest.NewRequestWithContext(t.Context(), method, "/api/v1/runs/1:stop?"+query, strings.NewReader("{}"))
			want := `/api/v1/runs/1:stop?` + query + ` "{}"`
			if method == http.MethodGet {
				r.Body, r.ContentLength = http.NoBody, 0
				want = `/api/v1/runs/1:stop?` + query + ` ""`
			}
			for _, name := range []string{"Origin", "Cookie", "Referer", "Sec-Fetch-Site", "Sec-Fetch-Mode", "X-Skein-Principal", "X-Skein-Here", "X-Skein-Hops",
				"X-Skein-Anything", "X-Skein-Signature", "Authorization", "Skein-Claimed-By"} {
				r.Header.Set(name, "said")
			}
			Gateway(here, dir, http.DefaultTransport, vouch, slog.New(slog.DiscardHandler)).ServeHTTP(httptest.NewRecorder(), r)
			h := <-got
			for name := range h {
				switch name {
				case "X-Skein-Came", "X-Skein-Principal", "X-Skein-Hops", "X-Skein-Signature", "Authorization", "Skein-Claimed-By", "Accept-Encoding", "Content-Length", "User-Agent":
				default:
					t.Errorf("%s %s: %s: %s is passed on", method, elsewhere, name, h.Get(name))
				}
			}
			if h.Get("X-Skein-Came") != query || h.Get("X-Skein-Principal") != want || h.Get("X-Skein-Hops") != "1" || h.Get("Authorization") != "said" {
				t.Errorf("%s %s: %v", method, elsewhere, h)
			}
		}
	}
}

// unproved passes requests on without a proof.
func unproved(*http.Request, []byte) error { return nil }
