//go:build linux

package plus_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// inside returns the processes of sources that a node with the clients of brokers has started.
func inside(t *testing.T, node int) (pids []int) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		line, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(line), "\x00plus\x00source\x00") {
			continue
		}
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "status"))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && strings.Contains(string(status), fmt.Sprintf("PPid:\t%d\n", node)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestOneProgram: a program skein that was built with the tag plus reads brokers without skein-plus next to
// it.
func TestOneProgram(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-tags", "plus", "-o", filepath.Join(bin, "skein"), "../cmd/skein").CombinedOutput(); err != nil {
		t.Fatalf("build skein with the tag plus: %v\n%s", err, out)
	}
	n := startNodeOf(t, bin)
	at := port(t)
	s := startDaemon(t, fmt.Sprintf("127.0.0.1:%d", at), "redis-server", "--port", fmt.Sprint(at), "--dir", n.dir, "--save", "")
	rdb := redis.NewClient(&redis.Options{Addr: s.address})
	defer rdb.Close()
	if is := n.run("", "version"); !strings.Contains(is, "the clients of skein-plus itself") {
		t.Errorf("skein version says:\n%s", is)
	}
	n.run("", "connection", "set", "default/r1", "redis", "--host", "127.0.0.1", "--port", fmt.Sprint(at), "--tls", "disable")
	n.run("", "connection", "test", "default/r1")
	n.apply("orders", `redis: {connection: r1, stream: orders, from: beginning}, overlap: allow`, "a: {wait: 1ms}")
	if err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "orders", Values: []string{"data", "x"}}).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "an entry has fired", func() bool { return n.schedule("orders").Fired == 1 })

	// An upgrade replaces the program while the node runs.
	if err := os.Remove(filepath.Join(bin, "skein")); err != nil {
		t.Fatal(err)
	}
	var children []int
	until(t, "the source runs", func() bool { children = inside(t, n.cmd.Process.Pid); return len(children) > 0 })
	for _, pid := range children {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "orders", Values: []string{"data", "y"}}).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "the source was started again", func() bool { return n.schedule("orders").Fired == 2 })
}
