package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/store"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestMain makes this test binary a keeper when a node starts one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "keeper" {
		os.Exit(KeeperMain(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

// patience bounds the wait for a condition. Nothing depends on its length.
const patience = time.Minute

// eventually waits for a condition, and fails the test if it does not come.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// testConfig returns the settings of a node with a free port and a data folder of its own.
func testConfig(t *testing.T, flags map[string]string) *config.Config {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	// Tasks write into folders of the test, which a fence would refuse. The slots do not depend on the cores.
	all := map[string]string{"data": filepath.Join(t.TempDir(), "data"), "listen": "127.0.0.1:0", "drain": "0", "recovery": "off", "isolation": "none", "slots": "4"}
	for name, v := range flags {
		all[name] = v
	}
	c, err := config.Load(all, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// startNode runs a node. stop ends the node and returns the error of Run.
func startNode(t *testing.T, c *config.Config) (n *Node, k *skein.Client, stop func() error) {
	t.Helper()
	n, err := Open(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() { _ = stop() })
	select {
	case <-n.Ready():
	case err := <-ended:
		ended <- err
		t.Fatalf("the node ended: %v", err)
	}
	if k, err = skein.New(n.URL(), skein.WithHandler(n.Handler())); err != nil {
		t.Fatal(err)
	}
	return n, k, stop
}

// asUser shows the token that programs of the node's user find.
func (n *Node) asUser(r *http.Request) { r.Header.Set("Authorization", "Bearer "+n.own.Secret()) }

func begin(t *testing.T, k *skein.Client, source string) string {
	t.Helper()
	if _, err := k.Apply(t.Context(), "flow", api.ApplyRequest{Source: "name: flow\ntasks:\n" + source}); err != nil {
		t.Fatal(err)
	}
	run, _, err := k.Start(t.Context(), api.RunRequest{Workflow: "flow"})
	if err != nil {
		t.Fatal(err)
	}
	return run.ID
}

func end(t *testing.T, k *skein.Client, id string) api.Run {
	t.Helper()
	for {
		run, err := k.Run(t.Context(), id, skein.Wait(time.Minute), skein.WithTasks())
		if err != nil {
			t.Fatal(err)
		}
		if run.Ended() {
			return run
		}
	}
}

// dies is a store that fails permanently when its test closes over.
type dies struct {
	store.Store
	over chan struct{}
}

func (d dies) Lost() <-chan struct{} { return d.over }

// TestStoreIsOver checks that an idle node ends with a reason when its store has failed permanently,
// whichever call has noticed that.
func TestStoreIsOver(t *testing.T) {
	n, err := Open(t.Context(), testConfig(t, nil), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	n.store = dies{n.store, over} // the engine uses the store inside of it, which does not fail
	ended := make(chan error, 1)
	go func() { ended <- n.Run(t.Context()) }()
	<-n.Ready()
	close(over)
	if err := <-ended; !errors.Is(err, store.ErrLost) {
		t.Errorf("it ended with %v", err)
	}
}

// TestOneNode checks that a node runs a graph, and that the lock file in its data folder names the node while
// it lives.
func TestOneNode(t *testing.T) {
	c := testConfig(t, nil)
	n, k, stop := startNode(t, c)
	if info, err := os.Stat(c.Data); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data folder: %v, %v", info.Mode(), err)
	}
	held, err := datadir.Find(t.Context(), c.Data)
	if err != nil || held == nil || held.PID != os.Getpid() || held.Address != n.URL() {
		t.Errorf("holder %+v, %v", held, err)
	}
	var locked *datadir.LockedError
	if _, err := Open(t.Context(), c, slog.New(slog.DiscardHandler)); !errors.As(err, &locked) || locked.Address != n.URL() {
		t.Errorf("a second node: %v", err)
	}
	if _, err := k.Apply(t.Context(), "fed", api.ApplyRequest{Source: "name: fed\ntriggers: [{name: new, poll: {url: 'http://127.0.0.1:1/', every: 1h}}]\ntasks: {t: {run: 'true'}}\n"}); err != nil {
		t.Fatal(err)
	}
	run := end(t, k, begin(t, k, `
  a: {run: 'echo "n=4" >> "$SKEIN_OUTPUT"', outputs: {n: int}}
  b: {run: 'test "$N$SKEIN_TASK$SKEIN_TOKEN$SKEIN_IDEMPOTENCY_KEY" = "4b1$SKEIN_RUN_ID/b"', needs: a, env: {N: "${{ tasks.a.outputs.n }}"}}
`))
	if run.State != "succeeded" {
		t.Errorf("%s: %+v", run.State, run.Tasks)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if held, err := datadir.Find(t.Context(), c.Data); held != nil || err != nil {
		t.Errorf("after the end: %+v, %v", held, err)
	}
	if found, err := dbadmin.Verify(t.Context(), c); len(found) > 0 || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	o, err := Observe(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	reader, err := skein.New("http://127.0.0.1", skein.WithHandler(o.Handler()))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := reader.Run(t.Context(), run.ID); err != nil || again.State != "succeeded" {
		t.Errorf("observed: %v, %v", again.State, err)
	}
	if all, err := reader.Schedules(t.Context(), skein.SchedulesQuery{}); err != nil || len(all.Items) != 1 || all.Items[0].Source == nil || all.Items[0].Source.From != "now" {
		t.Errorf("observed triggers: %+v, %v", all.Items, err)
	}
}

// TestDrain: a node that ends lets attempts finish and starts no other. The next life continues.
func TestDrain(t *testing.T) {
	c := testConfig(t, map[string]string{"drain": "10m"})
	gate := filepath.Join(t.TempDir(), "gate")
	_, k, stop := startNode(t, c)
	id := begin(t, k, "  a: {run: 'touch "+gate+".at; until [ -e "+gate+" ]; do sleep 0.01; done'}\n  b: {run: \"true\", needs: a}\n")
	for _, err := os.Stat(gate + ".at"); err != nil; _, err = os.Stat(gate + ".at") {
		time.Sleep(time.Millisecond)
	}
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	for !errors.Is(k.Ready(t.Context()), skein.ErrUnavailable) { // the node has begun to leave
		time.Sleep(time.Millisecond)
	}
	if _, _, err := k.Start(t.Context(), api.RunRequest{Workflow: "flow"}); !errors.Is(err, skein.ErrUnavailable) {
		t.Errorf("a start while the node leaves: %v", err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	_, k, _ = startNode(t, c)
	run := end(t, k, id)
	if a := run.Tasks[0].Attempts; run.State != "succeeded" || len(a) != 1 || a[0].State != "succeeded" {
		t.Errorf("%s, a: %+v", run.State, a)
	}
}

// TestHurry: attempts that still run at the end are killed and lost. The next life runs their tasks again
// under new tokens.
func TestHurry(t *testing.T) {
	c := testConfig(t, map[string]string{"drain": "10m"})
	at := filepath.Join(t.TempDir(), "at")
	n, k, stop := startNode(t, c)
	id := begin(t, k, "  a: {run: 'test $SKEIN_ATTEMPT = 2 || { touch "+at+"; sleep 600; }'}\n")
	for _, err := os.Stat(at); err != nil; _, err = os.Stat(at) {
		time.Sleep(time.Millisecond)
	}
	n.Hurry()
	if err := stop(); err != nil {
		t.Error(err)
	}
	_, k, _ = startNode(t, c)
	run := end(t, k, id)
	if a := run.Tasks[0].Attempts; run.State != "succeeded" || len(a) != 2 || a[0].State != "lost" || a[1].State != "succeeded" {
		t.Errorf("%s, a: %+v", run.State, a)
	}
}

// TestUnresolvable: if the node cannot make a process from a task, the task fails with a cause and a message.
func TestUnresolvable(t *testing.T) {
	c := testConfig(t, nil)
	_, k, _ := startNode(t, c)
	run := end(t, k, begin(t, k, `
  nan: {run: "true", env: {N: "${{ 1 / (size(run.id) - 36) }}"}}
  far: {run: "true", dir: below}
`))
	causes := map[string]string{}
	for _, task := range run.Tasks {
		if task.State != "failed" || task.Cause == nil || task.Message == nil {
			t.Fatalf("task %s is %s: %v", task.Name, task.State, task.Message)
		}
		causes[task.Name] = *task.Cause
	}
	if causes["nan"] != "expression" || causes["far"] != "start" {
		t.Errorf("causes %v", causes)
	}
}
