//go:build linux

package plus_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	v1 "github.com/Azure/go-amqp"
	amqp "github.com/rabbitmq/amqp091-go"
)

// send10 sends messages of AMQP 1.0 to a queue.
func (r *rabbit) send10(queue string, all ...*v1.Message) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	conn, err := v1.Dial(ctx, "amqp://skein:canary-8842@"+r.address, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	to, err := session.NewSender(ctx, "/amq/queue/"+queue, nil)
	for i := 0; i < len(all) && err == nil; i++ {
		err = to.Send(ctx, all[i], nil)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestAMQP10 runs the source amqp with version 1.0 of the protocol against a real broker.
func TestAMQP10(t *testing.T) {
	n := startNode(t)
	r := startRabbit(t, n.dir)
	n.run("canary-8842", "secret", "set", "RABBIT")
	n.run("wrong-8842", "secret", "set", "WRONG")
	_, at, _ := strings.Cut(r.address, ":")
	_, rubbish, _ := strings.Cut(hostile(t, "AMQP\x03\x01\x00\x00"+strings.Repeat("x", 1<<20)), ":")
	for name, c := range map[string][2]string{"a1": {at, "RABBIT"}, "wrong": {at, "WRONG"}, "rubbish": {rubbish, "RABBIT"}} {
		n.run("", "connection", "set", "default/"+name, "amqp", "--host", "127.0.0.1", "--port", c[0], "--user", "skein", "--password-secret", c[1], "--tls", "disable")
	}
	n.refused("if the broker has AMQP 1.0, set version: 1.0", "connection", "test", "default/rubbish")
	const wait = "a: {wait: 1ms}"
	trigger := func(connection, queue, more string) string {
		return `amqp: {version: 1.0, connection: ` + connection + `, queue: /amq/queue/` + queue + more + `}, overlap: allow`
	}

	// Each message starts one run, even if the node, the source and the broker are killed.
	r.queue("new", nil)
	n.apply("new", trigger("a1", "new", `, filter: "event.value.n >= 0 && event.subject == 'new'"`), wait)
	r.send("new", numbered(0, 300)...)
	until(t, "the first messages have fired", func() bool { return n.schedule("new").Fired >= 100 })
	n.kill()
	r.send("new", numbered(300, 600)...)
	n.start()
	until(t, "the source has gone on", func() bool { return n.schedule("new").Fired >= 400 })
	r.kill()
	r.start()
	r.connect()
	r.send("new", append(numbered(600, 1000), `{"n":-1}`)...)
	until(t, "all messages have fired", func() bool { x := n.schedule("new"); return x.Fired >= 1000 && x.Source.Filtered >= 1 })
	n.once("new", 1000)
	until(t, "all messages are acknowledged", func() bool { return r.left("new") == 0 })

	// A trigger without room takes no more than its prefetch. A paused trigger returns its messages.
	r.queue("held", nil)
	r.send("held", numbered(0, 20)...)
	n.apply("held", `amqp: {version: 1.0, connection: a1, queue: /amq/queue/held, prefetch: 5}, max_concurrent_runs: 1`, "a: {approval: {}}")
	until(t, "the first message fills the room", func() bool { return n.schedule("held").Fired == 1 && r.left("held") == 14 })
	n.run("", "schedule", "pause", "held/held")
	until(t, "a paused trigger returns its messages", func() bool { return r.left("held") == 19 })

	// Each form of a body becomes a value. The broker makes the name of the queue the subject if there is none. Messages that cannot be used become dead letters.
	r.queue("dead10", nil)
	r.queue("shapes", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead10"})
	subject := "s"
	r.send10("shapes", v1.NewMessage([]byte(`{"is":"data"}`)), &v1.Message{Value: `{"is":"text"}`}, v1.NewMessage([]byte("{")),
		&v1.Message{Value: map[string]any{"is": "map"}, Properties: &v1.MessageProperties{MessageID: uint64(7), Subject: &subject}, ApplicationProperties: map[string]any{"half": 0.5}})
	n.apply("shapes", trigger("a1", "shapes", "")+`, params: {n: "${{ trigger.event.value.is }} ${{ trigger.event.message_id }} ${{ trigger.event.subject }}"}`, wait)
	until(t, "the messages that can be used have fired", func() bool { return n.schedule("shapes").Fired == 3 })
	until(t, "the other one is a dead letter", func() bool { return r.left("dead10") == 1 })
	if reasons := n.missed("shapes", "is not JSON"); reasons != [3]int{1} {
		t.Errorf("%v: %+v", reasons, n.fires("shapes"))
	}
	got := n.run("", "run", "list", "--workflow", "shapes", "-o", "json")
	for _, want := range []string{`"data  shapes"`, `"text  shapes"`, `"map 7 s"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no run has %s: %s", want, got)
		}
	}

	// The user signs in with a certificate, and a connection without a user is anonymous.
	key, err := os.ReadFile(r.key)
	if err != nil {
		t.Fatal(err)
	}
	n.run(string(key), "secret", "set", "KEY")
	_, secured, _ := strings.Cut(r.secured, ":")
	n.run("", "connection", "set", "default/anyone", "amqp", "--host", "127.0.0.1", "--port", at, "--tls", "disable")
	n.run("", "connection", "set", "default/shown", "amqp", "--host", "127.0.0.1", "--port", secured, "--ca-file", r.authority, "--certificate-file", r.certificate, "--key-secret", "KEY")
	for _, name := range []string{"anyone", "shown"} {
		r.queue(name, nil)
		r.send(name, `{"n":1}`)
		n.apply(name, trigger(name, name, ""), wait)
		until(t, name+" has fired", func() bool { return n.schedule(name).Fired == 1 })
	}

	for name, c := range map[string][3]string{"wrong10": {"wrong", "new", "auth failed"}, "noqueue10": {"a1", "none", "no queue"}, "rubbish10": {"rubbish", "new", "cannot be used"}} {
		n.apply(name, trigger(c[0], c[1], ""), wait)
		until(t, name+" says why", func() bool { return strings.Contains(n.schedule(name).Source.Why, c[2]) })
	}
	n.free("canary-8842", "rabbit.conf")
}

// left returns the number of messages of a queue that wait.
func (r *rabbit) left(queue string) int {
	r.t.Helper()
	q, err := r.channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return q.Messages
}
