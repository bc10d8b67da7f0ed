package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/joining"
	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

var update = flag.Bool("update", false, "write testdata/matrix.txt")

// TestMatrix calls every route of every listener as each kind of caller, through the gate and the guard of a
// node, and compares the answers with the table that people review. 204 means that the call reached its
// handler.
func TestMatrix(t *testing.T) {
	st := memory.New(memory.Options{})
	token := func(kind, name string, expires int64) (string, int64) {
		secret := auth.NewSecret(kind)
		hash, err := auth.HashSecret(secret)
		if err != nil {
			t.Fatal(err)
		}
		row := store.WholeToken(kind, name, hash)
		if expires != 0 {
			row.Expires = 1
		}
		if row, err = st.AddToken(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		return "Bearer " + secret, row.ID
	}
	api, _ := token(store.TokenAPI, "ann", 0)
	worker, _ := token(store.TokenWorker, "w1", 0)
	node, _ := token(store.TokenNode, "n1", 0)
	odd, _ := token("odd", "odd", 0)
	expired, _ := token(store.TokenAPI, "old", 1)
	revoked, id := token(store.TokenAPI, "gone", 0)
	if err := st.RevokeToken(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	reached := server.Guarded("skein.example:8080", true, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	door := func(required bool) http.Handler {
		return auth.New(auth.Config{Store: st, Required: required, Route: new(Node).route, Refusals: 1 << 30,
			Log: slog.New(slog.DiscardHandler)}).Wrap(reached)
	}
	open, loopback := door(true), door(false)
	sessions := auth.NewSessions(st)
	people := auth.New(auth.Config{Store: st, Required: true, Sessions: sessions, Route: new(Node).route, Refusals: 1 << 30,
		Log: slog.New(slog.DiscardHandler)}).Wrap(reached)
	cookie, _, err := sessions.ByToken(t.Context(), strings.TrimPrefix(api, "Bearer "), auth.Place{})
	if err != nil {
		t.Fatal(err)
	}
	local, localHash := auth.NewLocal()
	own := auth.New(auth.Config{Store: st, Required: true, Local: localHash, Route: new(Node).route, Refusals: 1 << 30}).Wrap(reached)
	invited, _ := token(store.TokenInvite, "invitation w9 x", 0)
	issuer := authority.New(authority.Config{Rows: st, Vault: &sealed.Book{Store: st, File: filepath.Join(t.TempDir(), "key"), Own: true}})
	if err := issuer.Make(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	// certified returns the state of a connection that shows a certificate of a node, or of a worker with or
	// without a row.
	certified := func(worker string, row bool) *tls.ConnectionState {
		own, err := issuer.Node("n1")
		if err != nil {
			t.Fatal(err)
		}
		chain := own.Certificate
		if worker != "" {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			is, err := issuer.Worker(&key.PublicKey, worker)
			if err != nil {
				t.Fatal(err)
			}
			hash, err := authority.KeyHash(&key.PublicKey)
			if err != nil {
				t.Fatal(err)
			}
			if chain = is.Chain; row {
				if _, err := st.AddToken(t.Context(), store.WholeToken(store.TokenCertificate, auth.WorkerName(worker), hash)); err != nil {
					t.Fatal(err)
				}
			}
		}
		certs, err := authority.ParseAll(chain)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.ConnectionState{PeerCertificates: certs}
	}
	tlsDoor := auth.New(auth.Config{Store: st, Required: true, Certificates: joining.NewNode(joining.Config{Authority: issuer}), Route: new(Node).route, Refusals: 1 << 30,
		Log: slog.New(slog.DiscardHandler)}).Wrap(reached)
	connections := map[string]*tls.ConnectionState{"Certificate worker": certified("w9", true), "Certificate node": certified("", false), "Certificate norow": certified("w8", false)}
	callers := []struct {
		name  string
		door  http.Handler
		shows string
		from  string // value of the header Origin
	}{
		{"nobody", open, "", ""}, {"api", open, api, ""}, {"worker", open, worker, ""}, {"node", open, node, ""}, {"odd", open, odd, ""},
		{"expired", open, expired, ""}, {"revoked", open, revoked, ""}, {"unknown", open, "Bearer " + auth.NewSecret("api"), ""},
		{"foreign", open, api, "https://evil.example"}, {"local", loopback, "", ""}, {"localworker", loopback, worker, ""},
		{"localforeign", loopback, "", "https://evil.example"},
		{"own", own, "Bearer " + local, ""}, {"ownnobody", own, "", ""}, {"ownforeign", own, "Bearer " + local, "https://evil.example"},
		{"otherlocal", own, "Bearer " + auth.NewSecret("local"), ""},
		{"session", people, "Cookie skein=" + cookie, ""}, {"sessionforeign", people, "Cookie skein=" + cookie, "https://evil.example"},
		{"invited", tlsDoor, invited, ""}, {"workercert", tlsDoor, "Certificate worker", ""}, {"nodecert", tlsDoor, "Certificate node", ""},
		{"norowcert", tlsDoor, "Certificate norow", ""},
		{"sessionover", people, "Cookie skein=" + auth.NewSecret("session"), ""},
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-70s", "route")
	for _, c := range callers {
		fmt.Fprintf(&b, " %s", c.name)
	}
	value := regexp.MustCompile(`\{[a-z]+(\.\.\.)?\}`)
	rows := append(access.Table(), access.Row{Method: "POST", Path: "/nothing"}, access.Row{Method: "PUT", Path: "/internal/v1/report"},
		access.Row{Method: "POST", Path: "/internal/v1/nothing"}, access.Row{Method: "POST", Path: "/internal/v1%2Freport"},
		access.Row{Method: "POST", Path: home1})
	for _, row := range rows {
		fmt.Fprintf(&b, "\n%-70s", row.Method+" "+row.Path)
		for _, c := range callers {
			r := httptest.NewRequest(row.Method, value.ReplaceAllString(row.Path, "x"), nil)
			r.Host = "skein.example:8080"
			if cookie, is := strings.CutPrefix(c.shows, "Cookie "); connections[c.shows] != nil {
				r.TLS = connections[c.shows]
			} else if is {
				r.Header.Set("Cookie", cookie)
			} else if c.shows != "" {
				r.Header.Set("Authorization", c.shows)
			}
			if c.from != "" {
				r.Header.Set("Origin", c.from)
			}
			w := httptest.NewRecorder()
			c.door.ServeHTTP(w, r)
			fmt.Fprintf(&b, " %-*d", len(c.name), w.Code)
		}
	}
	var lines []string
	for line := range strings.SplitSeq(b.String(), "\n") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	got, file := strings.Join(lines, "\n")+"\n", filepath.Join("testdata", "matrix.txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test ./internal/app -run TestMatrix -update writes it):\n%s", file, got)
	}
}

// home1 is a path that becomes the path of a worker's call if it is decoded. Undecoded, it is another path.
const home1 = "/skein.worker.v1.Workers%2FRegister"
