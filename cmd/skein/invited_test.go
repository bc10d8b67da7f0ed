//go:build linux

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestInvitedWorker: a worker joins by the printed command and runs tasks of its group with its certificate.
// It renews the certificate, also during a change of roots, and is removed when the certificate is revoked.
// The processes are real, and a certificate lasts 120 s, so a renewal may be 40 s late.
func TestInvitedWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cert, key := w.certificate()
	bare := slices.Clone(w.env)
	w.env = append(slices.Clone(bare), "SKEIN_CA_CERT="+cert, "SKEIN_CERTIFICATE_LIFE=120s", "SKEIN_HEARTBEAT=500ms", "SKEIN_LAG=4s", "SKEIN_SLOTS=1")
	p := w.server("--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	at := func(args ...string) outcome { return w.skein(append([]string{"--server", p.url}, args...)...) }
	o := at("worker", "invite", "w1", "--group", "etl", "--slots", "2", "--namespace", "default")
	if o.code != exitOK || !strings.HasPrefix(o.out, "skein worker join ") {
		t.Fatal(o)
	}
	if o := at("worker", "list"); !strings.Contains(o.out, "w1") || !strings.Contains(o.out, "invited") {
		t.Error(o)
	}
	join := append(strings.Fields(o.out)[1:], "--data", filepath.Join(w.dir, "w1"))
	with := w.env
	w.env = bare // the worker needs no further certificate of an authority
	if o := w.skein(join...); o.code != exitOK || !strings.Contains(o.err, "has joined") {
		t.Fatal(o)
	}
	if o := w.skein(append(slices.Clone(join[:len(join)-1]), filepath.Join(w.dir, "w2"))...); o.code == exitOK || !strings.Contains(o.err, "the invitation is used") {
		t.Error(o)
	}
	worker := w.start("worker", "--data", filepath.Join(w.dir, "w1"), "--drain", "1s")
	w.env = with
	says := func(text string, n int) {
		t.Helper()
		w.eventually("the worker says "+text, func() bool { return strings.Count(worker.log.String(), text) >= n })
	}
	says("code=home_attached", 1)
	file := w.workflow("hello", "  a: {run: \"true\", group: etl}")
	if o := at("run", file); o.code != exitOK {
		t.Fatalf("a run on the worker: %v", o)
	}
	other := w.workflow("other", "  a: {run: \"true\", node: w1}")
	if o := at("run", other); o.code != exitOK {
		t.Fatalf("a run that names the worker: %v", o)
	}
	foreign := w.write("foreign.yaml", "name: foreign\nnamespace: shop\ntasks:\n  a: {run: \"true\", group: etl}\n")
	if o := at("run", foreign, "--detach"); o.code != exitOK {
		t.Errorf("a run of another namespace: %v", o)
	}
	w.eventually("the run of another namespace waits with the reason", func() bool {
		return strings.Contains(at("explain", "shop/foreign@latest").out, "only w1 would do, and was not invited for namespace shop")
	})
	if o := at("ca", "rotate"); o.code != exitOK || strings.Count(o.out, "sha256:") != 2 {
		t.Fatal(o)
	}
	if o := at("run", file); o.code != exitOK {
		t.Fatalf("a run with a certificate of the old root: %v", o)
	}
	says("code=certificate_renewed", 1) // the new certificate comes from the new root
	if o := at("run", file); o.code != exitOK {
		t.Fatalf("a run with the renewed certificate: %v", o)
	}
	if o := at("worker", "revoke", "w1"); o.code != exitOK {
		t.Fatal(o)
	}
	w.eventually("the worker is gone", func() bool { return !strings.Contains(at("node", "list", "-o", "name").out, "w1") })
	says("skein worker invite w1", 1)
	worker.signal(syscall.SIGTERM)
	<-worker.ended
}
