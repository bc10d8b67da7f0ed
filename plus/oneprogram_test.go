//go:build linux

package plus_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestOneProgram: skein that is built with the tag plus reads brokers without skein-plus next to it.
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
}
