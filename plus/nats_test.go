//go:build linux

package plus_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsServer is a real NATS server with JetStream.
type natsServer struct {
	*daemon
	js jetstream.JetStream
}

// startNATS starts a server with TLS and a user.
func startNATS(t *testing.T, dir, certificate, key string) *natsServer {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", port(t))
	conf := filepath.Join(dir, "nats.conf")
	for name, text := range map[string]string{"nats.pem": certificate, "nats.key": key, "nats.conf": `listen: "` + address + `"
max_payload: 8388608
jetstream { store_dir: "` + dir + `/nats", max_memory_store: 64MB, max_file_store: 256MB }
authorization { users: [{user: skein, password: "canary-8842"}, {user: poor, password: "canary-8842", permissions: {publish: {deny: ">"}}}] }
tls { cert_file: "` + dir + `/nats.pem", key_file: "` + dir + `/nats.key" }
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &natsServer{daemon: startDaemon(t, address, "nats-server", "-c", conf)}
	nc, err := nats.Connect("nats://"+address, nats.UserInfo("skein", "canary-8842"), nats.RootCAs(filepath.Join(dir, "nats.pem")), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if s.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *natsServer) stream(name string, subjects ...string) {
	s.t.Helper()
	until(s.t, "stream "+name+" is made", func() bool {
		_, err := s.js.CreateStream(s.t.Context(), jetstream.StreamConfig{Name: name, Subjects: subjects})
		return err == nil
	})
}

// send sends messages. If it repeats one, the server recognizes its id.
func (s *natsServer) send(subject string, values ...string) {
	s.t.Helper()
	for _, v := range values {
		until(s.t, "a message is sent", func() bool {
			_, err := s.js.Publish(s.t.Context(), subject, []byte(v), jetstream.WithMsgID(subject+v[:min(len(v), 100)]))
			return err == nil
		})
	}
}

// TestNATS runs the source nats against a real server.
func TestNATS(t *testing.T) {
	n := startNode(t)
	certificate, key := pair(t)
	s := startNATS(t, n.dir, certificate, key)
	n.run("canary-8842", "secret", "set", "NATS")
	n.run("wrong-8842", "secret", "set", "WRONG")
	ca := filepath.Join(n.dir, "nats.pem")
	connection := func(name, address, user, password string, more ...string) {
		n.run("", append([]string{"connection", "set", "default/" + name, "nats", "--server", address, "--user", user, "--password-secret", password}, more...)...)
	}
	connection("n1", s.address, "skein", "NATS", "--ca-file", ca)
	connection("wrong", s.address, "skein", "WRONG", "--ca-file", ca)
	connection("strange", s.address, "skein", "NATS")
	connection("away", fmt.Sprintf("127.0.0.1:%d", port(t)), "skein", "NATS")
	connection("rubbish", hostile(t, "INFO {\r\n"+strings.Repeat("x", 1<<20)), "skein", "NATS", "--tls", "disable")
	connection("poor", s.address, "poor", "NATS", "--ca-file", ca)
	n.run("", "connection", "test", "default/n1")
	n.refused("Authorization Violation", "connection", "test", "default/wrong")
	n.refused("certificate", "connection", "test", "default/strange")
	n.refused("refused", "connection", "test", "default/away")
	n.refused("cannot be used", "connection", "test", "default/rubbish")
	n.refused("ermission", "connection", "test", "default/poor")
	const wait = "a: {wait: 1ms}"

	// Each message starts one run, even if the node, the source and the server are killed.
	s.stream("ORDERS", "orders.>", "other.>")
	n.apply("orders", `nats: {connection: n1, stream: ORDERS, subject: "orders.*", from: beginning, filter: "event.value.n >= 0"}, overlap: allow, params: {n: "${{ trigger.event.value.n }}"}`, wait)
	s.send("other.a", `{"n":7}`)
	s.send("orders.a", numbered(0, 300)...)
	until(t, "the first messages have fired", func() bool { return n.schedule("orders").Fired >= 100 })
	n.kill()
	s.send("orders.b", numbered(300, 600)...)
	n.start()
	until(t, "the source has gone on", func() bool { return n.schedule("orders").Fired >= 400 })
	s.daemon.kill()
	s.daemon.start()
	s.send("orders.a", append(numbered(600, 1000), `{"n":-1}`)...)
	until(t, "all messages have fired", func() bool { x := n.schedule("orders"); return x.Fired >= 1000 && x.Source.Filtered == 1 })
	n.once("orders", 1000)
	n.run("", "schedule", "seek", "orders/orders", "--to", "beginning")
	until(t, "the source has read all again", func() bool { return n.schedule("orders").Source.Filtered == 2 })
	n.once("orders", 1000)

	// Messages that cannot be used are recorded as missed, and do not stop the source. One of them is larger
	// than a request takes.
	s.stream("POISON", "poison")
	s.send("poison", "{", `{"n":1}`, string([]byte{0xff, 0xfe}), `"`+strings.Repeat("x", 2<<20)+`"`, `"`+strings.Repeat("y", 8<<20-300)+`"`, `{"n":2}`)
	n.apply("poison", `nats: {connection: n1, stream: POISON, from: beginning}, overlap: allow`, wait)
	until(t, "the messages that can be used have fired", func() bool { return n.schedule("poison").Fired == 2 })
	if reasons := n.missed("poison", "is not JSON", "the limit is"); reasons != [3]int{2, 2} {
		t.Errorf("%v: %+v", reasons, n.fires("poison"))
	}

	// Messages that are deleted before they are read are counted. A stream that was created again counts as
	// one loss.
	s.stream("GAP", "gap")
	s.send("gap", numbered(0, 10)...)
	n.apply("gap", `nats: {connection: n1, stream: GAP, from: beginning}, overlap: allow`, wait)
	until(t, "the messages have fired", func() bool { return n.schedule("gap").Fired == 10 })
	n.run("", "schedule", "pause", "gap/gap")
	s.send("gap", numbered(10, 30)...)
	gap, err := s.js.Stream(t.Context(), "GAP")
	if err == nil {
		err = gap.Purge(t.Context(), jetstream.WithPurgeSequence(18))
	}
	if err != nil {
		t.Fatal(err)
	}
	n.run("", "schedule", "resume", "gap/gap")
	until(t, "the trigger is paused because of the loss", func() bool { x := n.schedule("gap"); return x.State == "paused" && x.Source.Lost == 7 })
	n.run("", "schedule", "resume", "gap/gap")
	until(t, "the rest has fired", func() bool { return n.schedule("gap").Fired == 23 })
	n.run("", "schedule", "pause", "gap/gap")
	if err := s.js.DeleteStream(t.Context(), "GAP"); err != nil {
		t.Fatal(err)
	}
	s.stream("GAP", "gap")
	s.send("gap", `{"n":100}`)
	n.run("", "schedule", "resume", "gap/gap")
	until(t, "the trigger is paused because the stream is another one", func() bool { x := n.schedule("gap"); return x.State == "paused" && x.Source.Lost == 8 })
	n.run("", "schedule", "resume", "gap/gap")
	until(t, "the new stream is read", func() bool { return n.schedule("gap").Fired == 24 })

	// One run takes many messages, beginning with the present ones.
	s.stream("MANY", "many")
	s.send("many", `{"n":-1}`)
	n.apply("many", `nats: {connection: n1, stream: MANY, batch: {max: 50, wait: 500ms}}, overlap: allow`, wait)
	until(t, "the source has a cursor", func() bool { return n.schedule("many").Source.Cursor != "" })
	s.send("many", numbered(0, 120)...)
	until(t, "the messages have fired", func() bool { return n.items("many") == 120 })

	// The state of a trigger says in words why the trigger cannot read.
	if _, err := s.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "WORK", Subjects: []string{"work"}, Retention: jetstream.WorkQueuePolicy}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][3]string{"wrong": {"wrong", "ORDERS", "Authorization Violation"}, "nostream": {"n1", "NONE", "there is no stream NONE"}, "work": {"n1", "WORK", "retention limits"}} {
		n.apply(name, `nats: {connection: `+c[0]+`, stream: `+c[1]+`}`, wait)
		until(t, name+" says why", func() bool { return strings.Contains(n.schedule(name).Source.Why, c[2]) })
	}
	n.free("canary-8842", "nats.conf")
}
