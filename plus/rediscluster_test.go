//go:build linux

package plus_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// redisCluster starts two servers of one cluster. Each has half of the slots.
func redisCluster(t *testing.T, dir string) (servers [2]*daemon, clients [2]*redis.Client) {
	t.Helper()
	do := func(of *redis.Client, args ...any) string {
		t.Helper()
		said, err := of.Do(t.Context(), args...).Text()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return said
	}
	for i, slots := range [][2]int{{0, 8191}, {8192, 16383}} {
		at, bus := port(t), port(t)
		servers[i] = startDaemon(t, fmt.Sprintf("127.0.0.1:%d", at), "redis-server", "--port", fmt.Sprint(at), "--cluster-port", fmt.Sprint(bus), "--dir", dir, "--cluster-enabled", "yes",
			"--cluster-config-file", fmt.Sprintf("nodes-%d", i), "--appendonly", "yes", "--appendfsync", "always", "--appenddirname", fmt.Sprintf("aof-%d", i), "--save", "")
		clients[i] = redis.NewClient(&redis.Options{Addr: servers[i].address})
		t.Cleanup(func() { _ = clients[i].Close() })
		do(clients[i], "cluster", "addslotsrange", slots[0], slots[1])
		if i == 1 {
			do(clients[0], "cluster", "meet", "127.0.0.1", fmt.Sprint(at), fmt.Sprint(bus))
		}
	}
	for i := range clients {
		until(t, "the cluster is whole", func() bool { return strings.Contains(do(clients[i], "cluster", "info"), "cluster_state:ok") })
	}
	return servers, clients
}

// TestRedisCluster runs the source redis against a real cluster. The stream is on the server that the
// connection does not name, and moves to the other one.
func TestRedisCluster(t *testing.T) {
	n := startNode(t)
	servers, clients := redisCluster(t, n.dir)
	_, at, _ := strings.Cut(servers[0].address, ":")
	n.run("", "connection", "set", "default/r1", "redis", "--host", "127.0.0.1", "--port", at, "--tls", "disable")
	if is, err := n.command("connection", "test", "default/r1").CombinedOutput(); err != nil || !strings.Contains(string(is), "a cluster of Redis") {
		t.Errorf("%v: %s", err, is)
	}
	all := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{servers[0].address}})
	t.Cleanup(func() { _ = all.Close() })
	stream := ""
	for i := 0; stream == ""; i++ {
		name := fmt.Sprintf("orders-%d", i)
		if slot, err := all.ClusterKeySlot(t.Context(), name).Result(); err != nil {
			t.Fatal(err)
		} else if slot >= 8192 {
			stream = name
		}
	}
	send := func(values ...string) {
		t.Helper()
		for _, v := range values {
			until(t, "an entry is added", func() bool {
				return all.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: []string{"data", v}}).Err() == nil
			})
		}
	}
	send(numbered(0, 100)...)
	n.apply("orders", `redis: {connection: r1, stream: `+stream+`, field: data, from: beginning}, overlap: allow`, "a: {wait: 1ms}")
	until(t, "the first entries have fired", func() bool { return n.schedule("orders").Fired == 100 })

	// The slot of the stream moves to the other server.
	slot := all.ClusterKeySlot(t.Context(), stream).Val()
	var ids [2]string
	for i := range clients {
		ids[i] = clients[i].Do(t.Context(), "cluster", "myid").Val().(string)
	}
	for i, args := range [][]any{{"cluster", "setslot", slot, "importing", ids[1]}, {"cluster", "setslot", slot, "migrating", ids[0]},
		{"migrate", "127.0.0.1", at, stream, 0, 5000}, {"cluster", "setslot", slot, "node", ids[0]}, {"cluster", "setslot", slot, "node", ids[0]}} {
		if err := clients[[]int{0, 1, 1, 0, 1}[i]].Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	send(numbered(100, 150)...)
	until(t, "the source has followed the stream", func() bool { return n.schedule("orders").Fired == 150 })

	// A server is killed.
	servers[0].kill()
	servers[0].start()
	send(numbered(150, 200)...)
	until(t, "all entries have fired", func() bool { return n.schedule("orders").Fired == 200 })
	n.once("orders", 200)
}
