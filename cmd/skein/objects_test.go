//go:build linux

package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"skein.dev/skein/internal/blob/blobtest"
)

// TestArtifactsInObjects: a node and its worker upload artifacts to an S3 server. The node is killed while
// the server does not answer. The next process uploads the artifacts, and no task runs twice.
func TestArtifactsInObjects(t *testing.T) {
	t.Parallel()
	server := blobtest.Serve(t)
	var mu sync.Mutex
	writes := map[string]bool{}
	away := func(_ int, r *http.Request) blobtest.Fault {
		mu.Lock()
		defer mu.Unlock()
		_, key, ok := strings.Cut(r.URL.Path, "/files/")
		if !ok || r.Method != http.MethodPut {
			return blobtest.None
		}
		writes[key[strings.Index(key, "/")+1:]] = true
		return blobtest.Refuse
	}
	proxy := blobtest.NewProxy(t, server, nil)
	l := newLoner(t)
	l.p.stop()
	l.env = append(l.env, "SKEIN_ARTIFACTS="+server.URL("cmd", proxy.Address), "AWS_ACCESS_KEY_ID="+blobtest.AccessKey, "AWS_SECRET_ACCESS_KEY="+blobtest.SecretKey)
	l.again()
	w1 := filepath.Join(l.dir, "w1")
	q := l.start("worker", "--server", "http://"+l.address, "--name", "w1", "--group", "etl", "--data", w1, "--slots", "2")
	t.Cleanup(func() { endKeeper(t, w1) })
	l.listed("w1", true)
	l.p.apply("objects", `  here: {run: "echo here > here.txt", artifacts: [here.txt]}
  there: {group: etl, run: "echo there > there.txt", artifacts: [there.txt]}
  both: {needs: [here, there], inputs: [here/here.txt, there/there.txt], run: "cat here.txt there.txt"}
  far: {needs: [here, there], group: etl, inputs: [here/here.txt, there/there.txt], run: "cat here.txt there.txt"}
`)
	proxy.Choose(away)
	run := l.p.begin("objects", nil)
	l.eventually("both artifacts are written", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return writes["here.txt"] && writes["there.txt"]
	})
	l.p.kill()
	proxy.Choose(nil) // a node probes the store at its start
	l.again()
	for _, task := range l.p.wantState(run, "succeeded").Tasks {
		if len(task.Attempts) != 1 {
			t.Errorf("task %s: %+v", task.Name, task.Attempts)
		}
	}
	for _, task := range []string{"both", "far"} {
		l.eventually("the log of "+task, func() bool { return l.p.logOf(run, task, 1) == "here\nthere\n" })
	}
	keys := blobtest.Keys(t, server.Open(t, "cmd", ""), "artifacts/")
	manifests := 0
	for _, key := range keys {
		if strings.HasSuffix(key, "/manifest.json") {
			manifests++
		}
	}
	if manifests != 2 {
		t.Errorf("%q", keys)
	}
	for _, data := range []string{l.data, w1} {
		if left, _ := filepath.Glob(filepath.Join(data, "outgoing", "artifacts", "*", "*", "*", "*")); len(left) != 0 {
			t.Errorf("left on the machine: %q", left)
		}
	}
	q.signal(syscall.SIGTERM)
	if code := q.wait(); code != exitOK {
		t.Errorf("the worker ended with %d", code)
	}
	l.verify()
}
