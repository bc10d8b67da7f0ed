//go:build linux

package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"skein.dev/skein/internal/store/postgres/pgtest"
)

// onEach counts the attempts that run on each of these workers.
func (f *flight) onEach(names ...string) []int {
	f.t.Helper()
	got := make([]int, len(names))
	for i, name := range names {
		out, err := f.query("select count(*) from skein.attempt a join skein.member m on m.handler = a.handler where a.state in ('assigned', 'running') and m.name = '" + name + "'")
		if err == nil {
			got[i], err = strconv.Atoi(out)
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
	return got
}

// apply applies a workflow through a node.
func (m *member) apply(name, tasks string) {
	m.home.t.Helper()
	file := filepath.Join(m.home.t.TempDir(), name+".yaml")
	if err := os.WriteFile(file, []byte("name: "+name+"\ntasks:\n"+tasks), 0o600); err != nil {
		m.home.t.Fatal(err)
	}
	m.home.run("workflow", "apply", file)
}

// TestDispatchToWorkers checks each strategy for the choice of a worker.
func TestDispatchToWorkers(t *testing.T) {
	const tasks = 12
	names := []string{"a", "b", "c"}
	for _, tt := range []struct {
		strategy string
		right    func(got []int) bool
	}{
		{"least-loaded", func(got []int) bool { return got[0] >= 4 && got[1] >= 4 && got[2] >= 1 && got[2] <= 3 }},
		{"round-robin", func(got []int) bool { return slices.Max(got)-slices.Min(got) <= 1 }},
		{"random", func(got []int) bool { return slices.Max(got) < tasks }},
	} {
		t.Run(tt.strategy, func(t *testing.T) {
			t.Parallel()
			f := newFlight(t, 1, "SKEIN_ROLES=api,scheduler", "SKEIN_DISPATCH="+tt.strategy)
			hands := []*hand{f.worker("a", "--slots", "12"), f.worker("b", "--slots", "12"), f.worker("c", "--slots", "6")}
			f.listed(4)
			node := f.members[0]
			f.until("the node knows them all", func() bool { return len(node.nodes()) == 4 })
			gate, text := filepath.Join(t.TempDir(), "gate"), ""
			t.Cleanup(func() { _ = os.WriteFile(gate, nil, 0o600) })
			for i := range tasks {
				text += fmt.Sprintf("  t%d: {run: 'until [ -e %s ]; do sleep 0.1; done'}\n", i, gate)
			}
			node.apply("w", text)
			run := node.detach("w")
			var got []int
			f.until("all its tasks are out", func() bool { got = f.onEach(names...); return got[0]+got[1]+got[2] == tasks })
			if !tt.right(got) {
				t.Errorf("%v", got)
			}
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			f.until("the run ends", func() bool { return node.state(run) == "succeeded" })
			for _, h := range hands {
				h.stop()
			}
		})
	}
}

// TestNamedWorker: a task for one worker runs there and nowhere else, fails when the worker is gone, and
// waits while the worker is away for a short time, which is reported.
func TestNamedWorker(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 1, "SKEIN_ROLES=api,scheduler")
	other, named := f.worker("a", "--slots", "4"), f.worker("c", "--slots", "1")
	f.listed(3)
	node, gate := f.members[0], filepath.Join(t.TempDir(), "gate")
	node.apply("named", "  here: {node: c, run: 'until [ -e "+gate+" ]; do sleep 0.1; done'}\n  after: {needs: here, run: \"true\"}\n")
	run := node.detach("named")
	f.until("it is where it belongs", func() bool { return slices.Equal(f.onEach("a", "c"), []int{0, 1}) })
	named.kill()
	f.until("the run has failed", func() bool { return node.state(run) == "failed" })
	if out := string(node.home.run("task", "list", run)); !strings.Contains(out, "node c is gone") || !strings.Contains(out, "upstream_failed") {
		t.Errorf("its tasks: %s", out)
	}
	again := node.detach("named")
	f.until("it is said that nobody may run it", func() bool {
		return strings.Contains(string(node.home.run("explain", again)), "no worker has node c")
	})
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	named.start()
	f.until("it runs when that is back", func() bool { return node.state(again) == "succeeded" })
	named.stop()
	other.stop()
}

// forge sends a report about an attempt of a handler to the node at an address, with a token of the kind
// node, but without a proof which node sends it. It returns the status.
func (w *world) forge(address, token, cert, handler string) int {
	w.t.Helper()
	pem, err := os.ReadFile(cert)
	if err != nil {
		w.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, address+"/internal/v1/report", strings.NewReader(`{"handler": `+handler+`}`))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestWorkerWithToken: a worker of a node that others can reach presents a token, over TLS. After the token
// is revoked, the worker is gone, and its tasks go to a worker with a valid token.
func TestWorkerWithToken(t *testing.T) {
	t.Parallel()
	pg, err := pgtest.Start(pgtest.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Close(); err != nil {
			t.Error(err)
		}
	})
	w := newWorld(t)
	w.env = append(w.env, "SKEIN_DB="+pg.URL("postgres"), "SKEIN_HEARTBEAT=500ms", "SKEIN_LAG=4s", "SKEIN_ROLES=api,scheduler")
	token := func(kind, name string) string {
		o := w.skein("token", "create", "--kind", kind, "--name", name)
		if o.code != exitOK {
			t.Fatal(o)
		}
		return strings.TrimSpace(o.out)
	}
	ann, node, bad, good := token("api", "ann"), token("node", "n"), token("worker", "bad"), token("worker", "good")
	cert, key := w.certificate()
	common := append(slices.Clone(w.env), "SKEIN_CA_CERT="+cert)
	w.env = append(slices.Clone(common), "SKEIN_API_TOKEN="+node)
	// A fixed port, because the other nodes would not know the address otherwise.
	free, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	p := w.server("--listen", fmt.Sprint("0.0.0.0:", port), "--advertise", fmt.Sprint("https://localhost:", port), "--tls-cert", cert, "--tls-key", key)
	worker := func(name, token string) *process {
		w.env = append(slices.Clone(common), "SKEIN_API_TOKEN="+token)
		return w.start("worker", "--server", p.url, "--name", name, "--slots", "1", "--data", filepath.Join(w.dir, name), "--drain", "1s")
	}
	bob := worker("bob", bad)
	w.env = append(slices.Clone(common), "SKEIN_API_TOKEN="+ann)
	at := func(args ...string) outcome { return w.skein(append([]string{"--server", p.url}, args...)...) }
	listed := func(name string) bool { return strings.Contains(at("node", "list", "-o", "name").out, name) }
	w.eventually("the worker is there", func() bool { return listed("bob") })
	file := w.workflow("hello", `  a: {run: "true"}`)
	if o := at("run", file); o.code != exitOK {
		t.Fatalf("a run on the worker: %v", o)
	}
	handler, err := exec.Command("psql", "-At", pg.URL("postgres"), "-c", "select handler from skein.member where not worker").Output()
	if err != nil {
		t.Fatal(err)
	}
	if status := w.forge(p.url, node, cert, strings.TrimSpace(string(handler))); status != http.StatusForbidden {
		t.Errorf("a report by the token of the nodes, without a proof: %d", status)
	}
	if o := at("token", "revoke", "bad"); o.code != exitOK {
		t.Fatal(o)
	}
	w.eventually("it is gone", func() bool { return !listed("bob") })
	if !bob.alive() {
		t.Errorf("it ended; it should wait for a token that is taken")
	}
	worker("carl", good)
	w.env = append(slices.Clone(common), "SKEIN_API_TOKEN="+ann)
	if o := at("run", file); o.code != exitOK {
		t.Errorf("a run on the other worker: %v", o)
	}
	if listed("bob") || !listed("carl") {
		t.Errorf("listed: %s", at("node", "list").out)
	}
}
