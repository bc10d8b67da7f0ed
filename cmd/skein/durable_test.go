//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"skein.dev/skein/internal/cluster/nettest"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/store"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// home is a folder with a data folder in it, and the real program.
type home struct {
	t   *testing.T
	dir string
	bin string
	env []string // the additional environment
	// doors has the certificates by which the server is reached. nil stands for plain text on loopback.
	doors *secured
	// on is the machine on which all processes of this home run. nil stands for this machine.
	on *nettest.Machine
	// said is the log of the server that was started last.
	said *transcript
}

func newHome(t *testing.T) *home {
	t.Helper()
	h := &home{t: t, dir: t.TempDir()}
	t.Cleanup(func() { endKeeper(t, h.data()) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// testscript.Main acts as the command under whose name the binary is called.
	h.bin = filepath.Join(h.dir, "skein")
	if err := os.Symlink(self, h.bin); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *home) data() string { return filepath.Join(h.dir, "data") }

func (h *home) cmd(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(h.t.Context(), h.bin, args...)
	cmd.Dir = h.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "SKEIN_DATA=" + h.data(), "SKEIN_LISTEN=127.0.0.1:0", "SKEIN_RECOVERY=off",
		"SKEIN_ISOLATION=none"} // on all machines, tasks write records into a folder of the test
	cmd.Env = append(cmd.Env, h.doors.env()...)
	if h.on != nil {
		cmd.Env = append(cmd.Env, "SKEIN_LISTEN="+h.on.Addr+":8443", "SKEIN_ADVERTISE=https://"+h.on.Addr+":8443")
		h.on.Enter(cmd)
	}
	cmd.Env = append(cmd.Env, h.env...)
	return cmd
}

// run runs the program to its end and returns its stdout.
func (h *home) run(args ...string) []byte {
	h.t.Helper()
	var out, errs bytes.Buffer
	cmd := h.cmd(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		h.t.Fatalf("skein %v: %v\n%s%s", args, err, &errs, &out)
	}
	return out.Bytes()
}

// server starts a server and waits until it answers.
func (h *home) server() (*exec.Cmd, *skein.Client) {
	h.t.Helper()
	said := new(transcript)
	h.said = said
	cmd := h.cmd(append([]string{"server", "--log-level", "warn"}, h.doors.args(store.TokenNode)...)...)
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if h.t.Failed() {
			h.t.Logf("server %s:\n%s", h.dir, said)
		}
		_ = cmd.Process.Kill() // most servers have ended by then
	})
	var held *datadir.LockedError
	for began := time.Now(); held == nil || held.PID != cmd.Process.Pid || held.Address == ""; time.Sleep(2 * time.Millisecond) {
		ended := hasEnded(cmd.Process.Pid)
		if ended || time.Since(began) > awaitMax {
			_ = cmd.Process.Signal(syscall.SIGQUIT) // SIGQUIT makes the server print the stacks of its goroutines
			_ = cmd.Wait()
			h.t.Fatalf("a server does not answer, ended by itself: %v, holder %+v; it said:\n%s", ended, held, said)
		}
		held, _ = datadir.Find(h.t.Context(), h.data())
	}
	return cmd, h.client(held.Address)
}

// client makes a client of the node that holds the data folder.
func (h *home) client(url string) *skein.Client {
	h.t.Helper()
	opts := []skein.Option{skein.WithToken(h.token())}
	if h.doors != nil {
		opts = append(opts, skein.WithHTTPClient(h.doors.http))
	}
	k, err := skein.New(url, opts...)
	if err != nil {
		h.t.Fatal(err)
	}
	return k
}

// token returns the token that people present to the node that holds the data folder.
func (h *home) token() string {
	if h.doors != nil {
		return h.doors.tokens[store.TokenAPI]
	}
	return ownToken(h.t, h.data())
}

// hasEnded reports whether a child has ended that was not reaped yet.
func hasEnded(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(stat, []byte(") Z "))
}

// until waits for a condition. Its time limit checks nothing. It only ends a test that would never end
// otherwise.
func (h *home) until(what string, is func() bool) {
	h.t.Helper()
	for began := time.Now(); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Since(began) > awaitMax {
			h.t.Fatalf("still not: %s", what)
		}
	}
}

// layered returns a graph of layers, in which each task needs two or three tasks of the previous layer.
func layered(layers, width int) map[string][]string {
	rng := rand.New(rand.NewPCG(1, 2))
	needs := map[string][]string{}
	for l := range layers {
		for i := range width {
			var of []string
			for k := range rng.IntN(2) + 2 {
				if l > 0 {
					of = append(of, fmt.Sprintf("t%02d-%03d", l-1, (i+k*7+rng.IntN(5))%width))
				}
			}
			needs[fmt.Sprintf("t%02d-%03d", l, i)] = unique(of)
		}
	}
	return needs
}

func unique(list []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// source returns a workflow file for a graph in which every task runs the same command.
func source(name, command string, needs map[string][]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\ntasks:\n", name)
	for task, of := range needs {
		fmt.Fprintf(&b, "  %s: {run: %q, needs: [%s]}\n", task, command, strings.Join(of, ", "))
	}
	return b.String()
}

// TestKilledTwentyTimes kills the server in the middle of a run of 2,000 tasks, twenty times, ten times with
// its keeper. The run ends with the right state, its tasks run in order and completely, no task runs twice
// under one token, and every invariant holds.
func TestKilledTwentyTimes(t *testing.T) {
	const kills, layers, width = 20, 20, 100
	h := newHome(t)
	needs := layered(layers, width)
	// A task writes one short line for each of its actions. Appending is atomic, so the file is in the real
	// order, independent of any database.
	witness := filepath.Join(h.dir, "witness")
	command := "echo begin $SKEIN_TASK $SKEIN_TOKEN >> " + witness + "; echo end $SKEIN_TASK $SKEIN_TOKEN >> " + witness
	file := filepath.Join(h.dir, "big.yaml")
	if err := os.WriteFile(file, []byte(source("big", command, needs)), 0o600); err != nil {
		t.Fatal(err)
	}
	server, _ := h.server()
	id := strings.TrimSpace(string(h.run("run", file, "--detach", "-o", "name")))
	for i := range kills {
		goal := (i + 1) * layers * width / (kills + 2)
		h.until(fmt.Sprintf("%d tasks done", goal), func() bool { return ends(witness) >= goal })
		if err := server.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = server.Wait()
		if i%2 == 0 { // every second time the attempts are killed, too; otherwise the next server continues them
			killKeeper(t, h.data())
		}
		server, _ = h.server()
	}
	h.run("run", "watch", id) // fails unless the run succeeds

	var run api.Run
	if err := json.Unmarshal(h.run("run", "get", id, "-o", "json"), &run); err != nil {
		t.Fatal(err)
	}
	checkRun(t, &run, needs)
	checkWitness(t, witness, needs)
	if out := h.run("verify"); !bytes.Contains(out, []byte(`"violations": []`)) {
		t.Errorf("verify: %s", out)
	}
	lost := 0
	for i := range run.Tasks {
		for _, a := range run.Tasks[i].Attempts {
			if a.State == "lost" {
				lost++
			}
		}
	}
	if lost == 0 {
		t.Error("ten kills of the keeper lost no attempt: the test did not test anything")
	}
	if err := server.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("the server's end: %v", err)
	}
}

func ends(witness string) int {
	text, err := os.ReadFile(witness)
	if err != nil {
		return 0
	}
	return bytes.Count(text, []byte("end "))
}

// checkRun checks a run against its graph: every task succeeded once, and none began before the tasks that
// it needs had ended.
func checkRun(t *testing.T, run *api.Run, needs map[string][]string) {
	t.Helper()
	if run.State != "succeeded" || len(run.Tasks) != len(needs) || run.Counts["succeeded"] != len(needs) {
		t.Fatalf("run %s is %s with %d tasks, %v; want %d succeeded", run.ID, run.State, len(run.Tasks), run.Counts, len(needs))
	}
	finished := map[string]time.Time{}
	for i := range run.Tasks {
		good := 0
		for _, a := range run.Tasks[i].Attempts {
			if a.State == "succeeded" {
				good++
				finished[run.Tasks[i].Name] = a.FinishedAt.Time
			}
		}
		if good != 1 {
			t.Errorf("task %s has %d succeeded attempts", run.Tasks[i].Name, good)
		}
	}
	for i := range run.Tasks {
		task := &run.Tasks[i]
		for _, a := range task.Attempts {
			for _, n := range needs[task.Name] {
				if a.StartedAt != nil && a.StartedAt.Before(finished[n]) {
					t.Errorf("task %s, attempt %d, started at %s, before %s ended at %s", task.Name, a.Number, a.StartedAt, n, finished[n])
				}
			}
		}
	}
}

// checkWitness checks the records that the tasks themselves wrote.
func checkWitness(t *testing.T, path string, needs map[string][]string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	began, ended := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var what, task, token string
		if _, err := fmt.Sscan(line, &what, &task, &token); err != nil {
			t.Fatalf("witness: %q: %v", line, err)
		}
		if what == "end" {
			ended[task] = true
			continue
		}
		if began[task+"/"+token] {
			t.Errorf("task %s began twice under token %s", task, token)
		}
		began[task+"/"+token] = true
		for _, n := range needs[task] {
			if !ended[n] {
				t.Errorf("task %s began before %s had ended", task, n)
			}
		}
	}
	if len(ended) != len(needs) {
		t.Errorf("%d tasks ended, want %d", len(ended), len(needs))
	}
}

// TestRealGraphs runs graphs of workflows from real use to the end, and checks that their tasks ran in the
// right order.
func TestRealGraphs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "wfformat", "*.json"))
	if err != nil || len(files) < 9 {
		t.Fatalf("%d graphs, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			needs := readGraph(t, file)
			h := newHome(t)
			flow := filepath.Join(h.dir, "graph.yaml")
			if err := os.WriteFile(flow, []byte(source("graph", "true", needs)), 0o600); err != nil {
				t.Fatal(err)
			}
			var run api.Run
			if err := json.Unmarshal(h.run("run", flow, "-o", "json"), &run); err != nil {
				t.Fatal(err)
			}
			checkRun(t, &run, needs)
			h.run("verify")
		})
	}
}

// readGraph reads a graph, and turns its ids into valid names of tasks.
func readGraph(t *testing.T, file string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var graph struct {
		Tasks []struct {
			ID      string   `json:"id"`
			Parents []string `json:"parents"`
		} `json:"tasks"`
	}
	if err := json.Unmarshal(text, &graph); err != nil {
		t.Fatal(err)
	}
	illegal := regexp.MustCompile(`[^A-Za-z0-9_-]`)
	legal := func(id string) string {
		id = illegal.ReplaceAllString(id, "_")
		return id[max(0, len(id)-100):] // the number that distinguishes ids is at the end
	}
	needs := map[string][]string{}
	for _, task := range graph.Tasks {
		name := legal(task.ID)
		if _, twice := needs[name]; twice {
			t.Fatalf("two tasks become %s", name)
		}
		needs[name] = []string{}
		for _, p := range task.Parents {
			needs[name] = append(needs[name], legal(p))
		}
	}
	return needs
}

// TestFollowedToTheEnd: a client that waits for a run still gets its end if the server dies and returns
// meanwhile.
func TestFollowedToTheEnd(t *testing.T) {
	h := newHome(t)
	gate, begun := filepath.Join(h.dir, "gate"), filepath.Join(h.dir, "begun")
	file := filepath.Join(h.dir, "held.yaml")
	text := "name: held\ntasks:\n  a: {run: 'touch " + begun + "; until [ -e " + gate + " ]; do sleep 0.02; done'}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server, _ := h.server()
	client := h.cmd("run", file, "-o", "json")
	var out bytes.Buffer
	client.Stdout = &out
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	h.until("a running task", func() bool {
		_, err := os.Stat(begun)
		return err == nil
	})
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait()
	h.server()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := client.Wait(); err != nil {
		t.Fatalf("the client: %v\n%s", err, &out)
	}
	var run api.Run
	if err := json.Unmarshal(out.Bytes(), &run); err != nil {
		t.Fatal(err)
	}
	if n := len(run.Tasks[0].Attempts); run.State != "succeeded" || n != 1 {
		t.Errorf("%s after %d attempts, want succeeded: the one attempt outlives the server", run.State, n)
	}
}
