//go:build linux

package plus_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// built is the folder with the built programs, or "" if none were built.
var built string

// programs builds skein and skein-plus once, next to each other.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "skein-plus-test")
	if err != nil {
		return "", err
	}
	built = dir
	for name, from := range map[string]string{"skein": "../cmd/skein", "skein-plus": "./cmd/skein-plus"} {
		if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, name), from).CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// node is a node on SQLite with skein-plus next to it.
type node struct {
	t        *testing.T
	bin, dir string
	address  string
	token    string
	cmd      *exec.Cmd
	said     bytes.Buffer
}

func startNode(t *testing.T) *node {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return startNodeOf(t, bin)
}

// startNodeOf starts the node of a folder of programs.
func startNodeOf(t *testing.T, bin string) *node {
	t.Helper()
	n := &node{t: t, bin: bin, dir: t.TempDir(), address: fmt.Sprintf("127.0.0.1:%d", port(t))}
	n.start()
	t.Cleanup(func() {
		n.kill()
		if t.Failed() {
			t.Logf("the node said:\n%s", &n.said)
		}
	})
	return n
}

func (n *node) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(n.bin, "skein"), args...)
	cmd.Dir = n.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir, "SKEIN_DATA=" + n.dir + "/data", "SKEIN_LISTEN=" + n.address, "SKEIN_RECOVERY=off", "SKEIN_LEASE=5s"}
	return cmd
}

func (n *node) start() {
	n.t.Helper()
	n.cmd = n.command("server", "--log-level", "warn")
	n.cmd.Stderr = &n.said
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	until(n.t, "the node answers", func() bool {
		conn, err := net.Dial("tcp", n.address)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	n.token = strings.TrimSpace(n.run("", "token", "local"))
}

func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
}

// run runs a command with an input, and returns its output.
func (n *node) run(input string, args ...string) string {
	n.t.Helper()
	var out, said bytes.Buffer
	cmd := n.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &said
	if err := cmd.Run(); err != nil {
		n.t.Fatalf("skein %v: %v\n%s%s", args, err, &said, &out)
	}
	return out.String()
}

// apply applies a workflow with one trigger. Both have the same name.
func (n *node) apply(name, trigger, tasks string) {
	n.t.Helper()
	path := filepath.Join(n.dir, name+".yaml")
	text := "name: " + name + "\nparams: {n: {default: none}}\ntriggers:\n  - {name: " + name + ", " + trigger + "}\ntasks: {" + tasks + "}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	n.run("", "workflow", "apply", path)
}

// schedule holds the fields of a trigger that the tests need.
type schedule struct {
	State  string `json:"state"`
	Reason string `json:"reason"`
	Fired  int64  `json:"fired"`
	Source struct {
		Cursor, Why    string
		Lag            *int64
		Filtered, Lost int64
	} `json:"source"`
}

func (n *node) schedule(name string) (s schedule) {
	n.t.Helper()
	ask, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, "http://"+n.address+"/api/v1/schedules/default/"+name+"/"+name, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	ask.Header.Set("Authorization", "Bearer "+n.token)
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		n.t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&s); err != nil || answer.StatusCode != http.StatusOK {
		n.t.Fatalf("%v: %s", err, answer.Status)
	}
	return s
}

// refused runs a command that must fail. The output must contain the reason.
func (n *node) refused(why string, args ...string) {
	n.t.Helper()
	if out, err := n.command(args...).CombinedOutput(); err == nil || !strings.Contains(string(out), why) {
		n.t.Errorf("skein %v: %v, want %q:\n%s", args, err, why, out)
	}
}

// fire is a line of the ledger.
type fire struct {
	Key, Run, Outcome, Reason string
	Count                     int64
}

func (n *node) fires(name string) (all []fire) {
	n.t.Helper()
	raw := n.run("", "schedule", "fires", name+"/"+name, "--all", "-o", "json")
	if err := json.Unmarshal([]byte(raw), &all); err != nil {
		n.t.Fatalf("%v: %.300s", err, raw)
	}
	return all
}

// missed counts the missed events of a trigger whose reasons contain each of the texts.
func (n *node) missed(name string, texts ...string) (all [3]int) {
	n.t.Helper()
	for _, f := range n.fires(name) {
		for i, text := range texts {
			if f.Outcome == "missed" && strings.Contains(f.Reason, text) {
				all[i]++
			}
		}
	}
	return all
}

// items counts the events in the batches of a trigger.
func (n *node) items(name string) (all int) {
	n.t.Helper()
	for _, f := range n.fires(name) {
		var items int
		if _, err := fmt.Sscanf(f.Reason, "%d events", &items); err == nil {
			all += items
		}
	}
	return all
}

// once checks that the ledger has each key once, and that each has a run of its own.
func (n *node) once(name string, events int) {
	n.t.Helper()
	keys, runs := map[string]bool{}, map[string]bool{}
	for _, f := range n.fires(name) {
		if f.Outcome == "missed" {
			continue
		}
		if f.Key == "" || f.Run == "" || f.Count != 1 || keys[f.Key] || runs[f.Run] {
			n.t.Errorf("%+v", f)
		}
		keys[f.Key], runs[f.Run] = true, true
	}
	if len(keys) != events {
		n.t.Errorf("%d events fired, want %d", len(keys), events)
	}
}

// sources returns the skein-plus processes of this test.
func (n *node) sources() (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		line, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(line, []byte(filepath.Join(n.bin, "skein-plus")+"\x00source")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// signal sends a signal to the skein-plus processes.
func (n *node) signal(s syscall.Signal) {
	for _, pid := range n.sources() {
		_ = syscall.Kill(pid, s)
	}
}

// free checks that no file in the node's folder contains the value of a secret. Files in own are not checked.
func (n *node) free(value string, own ...string) {
	n.t.Helper()
	if err := filepath.WalkDir(n.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || slices.Contains(own, d.Name()) {
			return nil
		}
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(value)) {
			n.t.Errorf("%s has the value of a secret", path)
		}
		return nil
	}); err != nil {
		n.t.Error(err)
	}
}
