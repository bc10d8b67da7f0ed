//go:build linux

package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"skein.dev/skein/internal/certificate/certtest"
)

// certificate writes a self-signed certificate for localhost, and its key.
func (w *world) certificate() (cert, key string) {
	w.t.Helper()
	cert, key = certtest.SelfSigned(w.t)
	return w.write("cert.pem", cert), w.write("key.pem", key)
}

func trusting(t *testing.T, cert string) *http.Client {
	t.Helper()
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	c := &http.Client{Timeout: awaitMax, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// TestOpenNode starts a node that other machines can reach. That needs a certificate and a token, and the
// node answers only callers that show a token.
func TestOpenNode(t *testing.T) {
	w := newWorld(t)
	const wide = "0.0.0.0:0"
	w.refused(exitNotAllowed, []string{"--tls-cert", "--insecure-plaintext", "SSH"}, "server", "--listen", wide)
	cert, key := w.certificate()
	for given, missing := range map[string]string{"--tls-cert": "--tls-key", "--tls-key": "--tls-cert"} {
		w.refused(exitUsage, []string{"belong together", "no " + missing}, "server", "--listen", wide, given, cert)
	}
	w.refused(exitConflict, []string{"none.pem"}, "server", "--listen", "127.0.0.1:0", "--tls-cert", filepath.Join(w.dir, "none.pem"), "--tls-key", key)
	w.refused(exitNotAllowed, []string{"skein token create --kind api"}, "server", "--listen", wide, "--tls-cert", cert, "--tls-key", key)

	o := w.skein("token", "create", "--kind", "api", "--name", "ann")
	secret := strings.TrimSpace(o.out)
	if o.code != exitOK || secret == "" {
		t.Fatal(o)
	}
	worker := strings.TrimSpace(w.skein("token", "create", "--kind", "worker", "--name", "w").out)
	p := w.server("--listen", wide, "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(p.url, "https://localhost:") {
		t.Fatalf("it is at %s", p.url)
	}

	web := trusting(t, cert)
	call := func(method, path, token string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(method, p.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for _, c := range []struct {
		path, token string
		status      int
	}{
		{"/livez", "", 200}, {"/readyz", "", 200},
		{"/", "", 401}, {"/metrics", "", 401}, {"/version", "", 401}, {"/api/v1/runs", "", 401}, {"/api/docs", "", 401}, {"/api/v1/openapi.json", "", 401},
		{"/internal/v1/events", "", 401}, {"/internal/v1/events", secret, 403}, {"/api/v1/runs", worker, 403},
		{"/api/v1/runs", secret, 200}, {"/metrics", secret, 200}, {"/api/v1/runs", secret + "x", 401},
	} {
		if status, body := call(http.MethodGet, c.path, c.token); status != c.status {
			t.Errorf("%s with %.12q: %d, want %d: %.300s", c.path, c.token, status, c.status, body)
		}
	}

	// The command line is tried without the certificate of the authority, without a token, and with both.
	w.refused(exitUnreachable, []string{"certificate", "--ca-cert FILE"}, "--server", p.url, "run", "list")
	w.refused(exitUnreachable, []string{"speaks TLS", "https://"}, "--server", strings.Replace(p.url, "https://", "http://", 1), "run", "list")
	w.refused(exitUsage, []string{"none.token", "skein token create"}, "--server", p.url, "--token-file", "none.token", "run", "list")
	shown := w.secret("ann.token", secret+"\n")
	if o := w.skein("--server", p.url, "--ca-cert", cert, "--token-file", shown, "run", "list"); o.code != exitOK {
		t.Errorf("with a token in a file: %v", o)
	}
	w.refused(exitNotAllowed, []string{"a token", "--kind api"}, "--server", p.url, "--ca-cert", cert, "run", "list")
	w.refused(exitNotAllowed, []string{"a token", "--kind api"}, "--ca-cert", cert, "run", "list") // found by the data folder
	w.env = append(w.env, "SKEIN_API_TOKEN="+secret, "SKEIN_CA_CERT="+cert)
	w.workflow("hello", `  a: {run: "true"}`)
	if o := w.skein("run", "./hello.yaml", "-o", "json"); o.code != exitOK {
		t.Errorf("with a token: %v", o)
	}

	// A revoked token is refused within seconds. The last token with every right cannot be revoked.
	w.refused(exitConflict, []string{"no user could administer"}, "token", "revoke", "ann")
	if o := w.skein("token", "create", "--name", "spare"); o.code != exitOK {
		t.Fatal(o)
	}
	w.refused(exitNotAllowed, []string{"sign in"}, "token", "rotate", "ann")
	o = w.skein("token", "rotate", "spare", "--grace", "1h")
	if list := w.skein("token", "list", "-o", "json"); o.code != exitOK || !strings.HasPrefix(o.out, "skein_api_") || strings.Count(list.out, `"name": "spare"`) != 2 {
		t.Fatal(o, list)
	}
	// The new secret replaces the file, and nothing else is left in its folder.
	file := w.secret("spare.token", "old\n")
	o = w.skein("token", "rotate", "spare", "--out", file)
	wrote, _ := os.ReadFile(file)
	info, err := os.Stat(file)
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".new-*"))
	if o.code != exitOK || !strings.HasPrefix(string(wrote), "skein_api_") || strings.Contains(o.out, "skein_api_") || err != nil || info.Mode() != 0o600 || len(left) > 0 {
		t.Fatal(o, string(wrote), info, err, left)
	}
	// If the token cannot be made, no file is left, so that the same command works after its fault was corrected.
	none := filepath.Join(w.dir, "none.token")
	if o = w.skein("token", "create", "--for", "nobody", "--out", none); o.code == exitOK || !strings.Contains(o.err, "nobody") {
		t.Fatal(o)
	}
	if _, err := os.Stat(none); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a file was left:", err)
	}
	if o = w.skein("token", "revoke", "spare"); o.code != exitOK || !strings.Contains(o.err, "which was replaced") {
		t.Fatal(o)
	}
	if o = w.skein("token", "create", "--name", "spare"); o.code != exitOK {
		t.Fatal(o)
	}
	w.refused(exitConflict, []string{"that it made end with it"}, "token", "revoke", "ann")
	create := w.command("user", "create", "root", "--role", "cluster", "--password-stdin")
	create.Stdin = strings.NewReader("seven green bottles\n")
	if o := w.call(create); o.code != exitOK {
		t.Fatal(o)
	}
	if o := w.skein("token", "revoke", "ann"); o.code != exitOK {
		t.Fatal(o)
	}
	w.eventually("the token is refused", func() bool {
		status, _ := call(http.MethodGet, "/api/v1/runs", secret)
		return status == 401
	})

	// A renewed certificate is shown without a restart, once the node looks at the file again.
	before := fmt.Sprint(serial(t, web, p.url))
	renewed, _ := w.certificate()
	w.eventually("the renewed certificate is shown", func() bool {
		return fmt.Sprint(serial(t, trusting(t, renewed), p.url)) != before
	})
}

// TestRefusedWorker: a worker with a refused token says which token it needs and how to make it. When its
// file holds that token, the worker is accepted.
func TestRefusedWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	create := func(kind string) string {
		t.Helper()
		o := w.skein("token", "create", "--kind", kind, "--name", kind)
		if o.code != exitOK {
			t.Fatal(o)
		}
		return strings.TrimSpace(o.out)
	}
	api, right := create("api"), create("worker")
	cert, key := w.certificate()
	p := w.server("--listen", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key)
	args := []string{"worker", "--name", "w7", "--data", filepath.Join(w.dir, "w7"), "--server", p.url, "--drain", "1s"}
	says := func(q *process, text string) {
		t.Helper()
		w.eventually("it says "+text, func() bool { return strings.Contains(q.log.String(), text) })
	}
	ends := func(q *process) {
		t.Helper()
		q.signal(syscall.SIGINT)
		<-q.ended
	}
	q := w.start(args...)
	says(q, "--ca-cert FILE")
	ends(q)
	q = w.start(append(args, "--ca-cert", cert)...)
	says(q, "the nodes ask for a token of the kind worker: make one where the cluster runs: skein token create --kind worker --name w7")
	says(q, "--token-file FILE")
	ends(q)
	file := w.secret("w7.token", api)
	q = w.start(append(args, "--ca-cert", cert, "--token-file", file)...)
	says(q, "the token is not of the kind worker")
	says(q, "put it in place of the token file")
	w.secret("w7.token", right+"x")
	says(q, "the token is unknown to the nodes, revoked or expired")
	w.secret("w7.token", right)
	says(q, "code=home_attached")
	ends(q)
}

// serial returns the serial number of the certificate that a server shows, or nil if the client does not
// trust it.
func serial(t *testing.T, c *http.Client, url string) *big.Int {
	t.Helper()
	resp, err := c.Get(url + "/livez")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	return resp.TLS.PeerCertificates[0].SerialNumber
}
