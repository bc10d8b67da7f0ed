package app

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/trace"
	api "skein.dev/skein/sdk/api/v1"
)

// collector is a running OpenTelemetry Collector that prints what it receives.
type collector struct {
	url string
	out string // the file with the collector's output
}

// collectorProgram is the collector that "make clusters" builds into the cache. The name of the file contains a
// digest of its modules.
func collectorProgram(t *testing.T) string {
	t.Helper()
	sums, err := os.ReadFile("../../tools/collector/go.sum")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(sums)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(cache, "skein", "collector-"+hex.EncodeToString(sum[:])[:12])
	if _, err := os.Stat(program); err != nil {
		const why = "there is no OpenTelemetry Collector in the cache: run make clusters"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	return program
}

// startCollector starts a collector that ends with the test, for a protocol of the setting traces_protocol.
func startCollector(t *testing.T, protocol string) *collector {
	t.Helper()
	program := collectorProgram(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	c := &collector{url: "http://" + address, out: filepath.Join(t.TempDir(), "out")}
	config := filepath.Join(t.TempDir(), "collector.yaml")
	receiver, _, _ := strings.Cut(protocol, "/")
	text := fmt.Sprintf(`receivers: {otlp: {protocols: {%s: {endpoint: %q}}}}
exporters: {debug: {verbosity: detailed, use_internal_logger: false}}
service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}, telemetry: {metrics: {level: none}}}
`, receiver, address)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(c.out)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, config)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // also if the test is killed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // an error, because the collector was killed
		_ = out.Close()
	})
	eventually(t, "the collector listens", func() bool {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return c
}

// printed is a span as the collector prints it.
type printed struct{ trace, parent, id, name, status, all string }

var printedField = regexp.MustCompile(`(?m)^ +(Trace ID|Parent ID|ID|Name|Status code) +: ?(.*)$`)

// spans reads the spans that the collector has printed.
func (c *collector) spans(t *testing.T) []printed {
	t.Helper()
	text, err := os.ReadFile(c.out)
	if err != nil {
		t.Fatal(err)
	}
	var all []printed
	for _, part := range strings.Split(string(text), "\nSpan #")[1:] {
		p := printed{all: part}
		to := map[string]*string{"Trace ID": &p.trace, "Parent ID": &p.parent, "ID": &p.id, "Name": &p.name, "Status code": &p.status}
		for _, m := range printedField.FindAllStringSubmatch(part, -1) {
			if f := to[m[1]]; *f == "" {
				*f = m[2]
			}
		}
		all = append(all, p)
	}
	return all
}

// TestCollector: the OpenTelemetry Collector reads the spans of a run that a caller started. The tasks know the
// spans of their attempts before they are exported, and a called run is below the attempt of the call.
func TestCollector(t *testing.T) {
	for _, protocol := range []string{trace.ProtocolJSON, trace.ProtocolProtobuf, trace.ProtocolGRPC} {
		t.Run(protocol, func(t *testing.T) { collected(t, protocol) })
	}
}

func collected(t *testing.T, protocol string) {
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	c := startCollector(t, protocol)
	n, k, stop := startNode(t, testConfig(t, map[string]string{"traces": c.url, "traces-protocol": protocol}))
	eventually(t, "the exporter has its first positions: runs that ended before are not exported", func() bool {
		info, err := n.store.Info(t.Context())
		for s := dag.ShardID(0); err == nil && int(s) < int(info.Shards); s++ {
			_, err = n.store.TraceMark(t.Context(), s)
		}
		return err == nil
	})
	const tell = `{run: 'echo "trace=$TRACEPARENT" >> "$SKEIN_OUTPUT"', outputs: {trace: string}}`
	for name, source := range map[string]string{
		"child":  "tasks:\n  a: " + tell,
		"parent": "tasks:\n  a: " + tell + "\n  call: {workflow: child, needs: [a]}\n  bad: {run: exit 3, needs: [a]}",
	} {
		if _, err := k.Apply(t.Context(), name, api.ApplyRequest{Source: "name: " + name + "\n" + source}); err != nil {
			t.Fatal(err)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/v1/runs", strings.NewReader(`{"workflow":"parent"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Traceparent", caller)
	w := httptest.NewRecorder()
	if n.Handler().ServeHTTP(w, r); w.Code >= 300 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	id := regexp.MustCompile(`"id": ?"([^"]+)"`).FindStringSubmatch(w.Body.String())[1]
	if run := end(t, k, id); run.State != "failed" {
		t.Fatalf("the run is %s", run.State)
	}
	task, err := k.Task(t.Context(), id, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil { // a node that ends exports the last runs
		t.Fatal(err)
	}
	const spans = 2 + 4*2 // two runs, four tasks with an attempt each
	eventually(t, "the collector has printed all spans", func() bool { return len(c.spans(t)) >= spans })
	by := map[string]printed{}
	for _, s := range c.spans(t) {
		if s.trace != caller[3:35] {
			t.Errorf("span %s is in trace %s", s.name, s.trace)
		}
		by[s.name] = s
		if s.parent == "" {
			t.Errorf("span %s has no parent", s.name)
		}
	}
	parent, child := by["default/parent"], by["default/child"]
	if parent.parent != caller[36:52] || parent.status != "Error" || child.status != "Ok" || child.parent != by["call attempt"].id || by["call attempt"].parent != by["call"].id {
		t.Errorf("parent %+v\nchild %+v", parent, child)
	}
	if by["bad"].parent != parent.id || by["bad attempt"].parent != by["bad"].id || !strings.Contains(by["bad attempt"].all, "process.exit.code: Int(3)") {
		t.Errorf("the failed task: %+v", by["bad attempt"])
	}
	found := false
	for _, s := range c.spans(t) {
		found = found || s.name == "a attempt" && strings.Contains(string(task.Outputs), "00-"+s.trace+"-"+s.id+"-01")
	}
	if !found {
		t.Errorf("the task got %s", task.Outputs)
	}
}
