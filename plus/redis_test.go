//go:build linux

package plus_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestRedis runs the source redis against a real server.
func TestRedis(t *testing.T) {
	n := startNode(t)
	at := port(t)
	s := startDaemon(t, fmt.Sprintf("127.0.0.1:%d", at), "redis-server", "--port", fmt.Sprint(at), "--dir", n.dir, "--requirepass", "canary-8842", "--appendonly", "yes",
		"--appendfsync", "always", "--save", "")
	rdb := redis.NewClient(&redis.Options{Addr: s.address, Password: "canary-8842"})
	t.Cleanup(func() { _ = rdb.Close() })
	send := func(stream string, values ...string) {
		t.Helper()
		for _, v := range values {
			until(t, "an entry is added", func() bool {
				return rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: []string{"data", v, "kind", "x"}}).Err() == nil
			})
		}
	}
	n.run("canary-8842", "secret", "set", "REDIS")
	n.run("wrong-8842", "secret", "set", "WRONG")
	connection := func(name string, at int, secret string) {
		n.run("", "connection", "set", "default/"+name, "redis", "--host", "127.0.0.1", "--port", fmt.Sprint(at), "--password-secret", secret, "--tls", "disable")
	}
	connection("r1", at, "REDIS")
	connection("wrong", at, "WRONG")
	var rubbish int
	if _, err := fmt.Sscanf(hostile(t, "$9999999999999\r\n"+strings.Repeat("x", 1<<20)), "127.0.0.1:%d", &rubbish); err != nil {
		t.Fatal(err)
	}
	connection("rubbish", rubbish, "REDIS")
	n.run("", "connection", "test", "default/r1")
	n.refused("WRONGPASS", "connection", "test", "default/wrong")
	n.refused("cannot be used", "connection", "test", "default/rubbish")
	const wait = "a: {wait: 1ms}"

	// Each entry starts one run, even if the node and the server are killed.
	send("orders", numbered(0, 300)...)
	n.apply("orders", `redis: {connection: r1, stream: orders, field: data, from: beginning, filter: "event.value.n >= 0 && event.fields.kind == 'x'"}, overlap: allow`, wait)
	until(t, "the first entries have fired", func() bool { return n.schedule("orders").Fired >= 100 })
	n.kill()
	send("orders", numbered(300, 600)...)
	n.start()
	until(t, "the source has gone on", func() bool { return n.schedule("orders").Fired >= 400 })
	s.kill()
	s.start()
	send("orders", append(numbered(600, 1000), `{"n":-1}`)...)
	until(t, "all entries have fired", func() bool { x := n.schedule("orders"); return x.Fired >= 1000 && x.Source.Filtered == 1 })
	n.once("orders", 1000)
	n.run("", "schedule", "seek", "orders/orders", "--to", "beginning")
	until(t, "the source has read all again", func() bool { return n.schedule("orders").Source.Filtered == 2 })
	n.once("orders", 1000)

	// Entries that cannot be used are recorded as missed, and do not stop the source.
	send("poison", "{", `{"n":1}`, string([]byte{0xff, 0xfe}), `"`+strings.Repeat("x", 6<<20)+`"`)
	if err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "poison", Values: []string{"other", "1"}}).Err(); err != nil {
		t.Fatal(err)
	}
	send("poison", `{"n":2}`)
	n.apply("poison", `redis: {connection: r1, stream: poison, field: data, from: beginning}, overlap: allow`, wait)
	until(t, "the entries that can be used have fired", func() bool { return n.schedule("poison").Fired == 2 })
	if reasons := n.missed("poison", "is not JSON", "the limit is", "has no field data"); reasons != [3]int{2, 1, 1} {
		t.Errorf("%v: %+v", reasons, n.fires("poison"))
	}

	// Entries that are deleted before they are read are counted. A stream that was created again counts as
	// one loss.
	send("gap", numbered(0, 10)...)
	n.apply("gap", `redis: {connection: r1, stream: gap, from: beginning}, overlap: allow`, wait)
	until(t, "the entries have fired", func() bool { return n.schedule("gap").Fired == 10 })
	n.run("", "schedule", "pause", "gap/gap")
	send("gap", numbered(10, 30)...)
	if err := rdb.XTrimMaxLen(t.Context(), "gap", 13).Err(); err != nil {
		t.Fatal(err)
	}
	n.run("", "schedule", "resume", "gap/gap")
	until(t, "the trigger is paused because of the loss", func() bool { x := n.schedule("gap"); return x.State == "paused" && x.Source.Lost == 7 })
	n.run("", "schedule", "resume", "gap/gap")
	until(t, "the rest has fired", func() bool { return n.schedule("gap").Fired == 23 })
	n.run("", "schedule", "pause", "gap/gap")
	if err := rdb.Del(t.Context(), "gap").Err(); err != nil {
		t.Fatal(err)
	}
	send("gap", `{"n":100}`)
	n.run("", "schedule", "resume", "gap/gap")
	until(t, "the trigger is paused because the stream is another one", func() bool { x := n.schedule("gap"); return x.State == "paused" && x.Source.Lost == 8 })
	n.run("", "schedule", "resume", "gap/gap")
	until(t, "the new stream is read", func() bool { return n.schedule("gap").Fired == 24 })

	// One run takes many entries, beginning with the present ones.
	send("many", `{"n":-1}`)
	time.Sleep(2 * time.Millisecond) // an entry of the same millisecond as the trigger would count as new
	n.apply("many", `redis: {connection: r1, stream: many, batch: {max: 50, wait: 500ms}}, overlap: allow`, wait)
	until(t, "the source has a cursor", func() bool { return n.schedule("many").Source.Cursor != "" })
	send("many", numbered(0, 120)...)
	until(t, "the entries have fired", func() bool { return n.items("many") == 120 })

	// The state of a trigger says in words why the trigger cannot read.
	if err := rdb.Set(t.Context(), "text", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][3]string{"wrong": {"wrong", "orders", "WRONGPASS"}, "nostream": {"r1", "none", "there is no stream none"}, "text": {"r1", "text", "WRONGTYPE"}} {
		n.apply(name, `redis: {connection: `+c[0]+`, stream: `+c[1]+`}`, wait)
		until(t, name+" says why", func() bool { return strings.Contains(n.schedule(name).Source.Why, c[2]) })
	}
	n.free("canary-8842")
}
