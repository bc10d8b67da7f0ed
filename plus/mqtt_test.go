//go:build linux

package plus_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"
)

// TestMQTT runs the source mqtt against a real broker.
func TestMQTT(t *testing.T) {
	n := startNode(t)
	at := port(t)
	conf, users := filepath.Join(n.dir, "mosquitto.conf"), filepath.Join(n.dir, "users")
	text := fmt.Sprintf("listener %d 127.0.0.1\nallow_anonymous false\npassword_file %s\nmax_queued_messages 0\nuser root\n", at, users)
	for path, text := range map[string]string{conf: text, users: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if tool, err := exec.LookPath("mosquitto_passwd"); err == nil {
		if out, err := exec.Command(tool, "-b", users, "skein", "canary-8842").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	s := startDaemon(t, fmt.Sprintf("127.0.0.1:%d", at), "mosquitto", "-c", conf)
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	sender := paho.NewClient(paho.ClientConfig{Conn: conn})
	if _, err := sender.Connect(t.Context(), &paho.Connect{ClientID: "sender", KeepAlive: 60, CleanStart: true, UsernameFlag: true, Username: "skein", PasswordFlag: true, Password: []byte("canary-8842")}); err != nil {
		t.Fatal(err)
	}
	send := func(topic string, retain bool, values ...string) {
		t.Helper()
		for _, v := range values {
			if _, err := sender.Publish(context.Background(), &paho.Publish{QoS: 1, Topic: topic, Payload: []byte(v), Retain: retain}); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.run("canary-8842", "secret", "set", "MQTT")
	n.run("wrong-8842", "secret", "set", "WRONG")
	connection := func(name string, at int, secret string) {
		n.run("", "connection", "set", "default/"+name, "mqtt", "--host", "127.0.0.1", "--port", fmt.Sprint(at), "--user", "skein", "--password-secret", secret, "--tls", "disable")
	}
	connection("m1", at, "MQTT")
	connection("wrong", at, "WRONG")
	var rubbish int
	if _, err := fmt.Sscanf(hostile(t, "HTTP/1.1 400 Bad Request\r\n\r\n"+strings.Repeat("x", 1<<20)), "127.0.0.1:%d", &rubbish); err != nil {
		t.Fatal(err)
	}
	connection("rubbish", rubbish, "MQTT")
	n.run("", "connection", "test", "default/m1")
	const refusal = "the user"
	n.refused(refusal, "connection", "test", "default/wrong")
	n.refused("cannot be used", "connection", "test", "default/rubbish")
	const wait = "a: {wait: 1ms}"

	// Each message starts one run, even if the node is killed, because the broker keeps the session.
	send("orders/kept", true, `{"n":0}`)
	n.apply("orders", `mqtt: {connection: m1, topic: "orders/#", id: event.value.n, filter: "event.value.n >= 0"}, overlap: allow`, wait)
	until(t, "the retained message has fired", func() bool { return n.schedule("orders").Fired == 1 })
	send("orders/a", false, numbered(1, 300)...)
	until(t, "the first messages have fired", func() bool { return n.schedule("orders").Fired >= 100 })
	n.kill()
	send("orders/b", false, numbered(300, 600)...)
	n.start()
	until(t, "the source has gone on", func() bool { return n.schedule("orders").Fired >= 400 })
	n.kill()
	send("orders/a", false, append(numbered(600, 1000), `{"n":-1}`)...)
	n.start()
	until(t, "all messages have fired", func() bool { x := n.schedule("orders"); return x.Fired >= 1000 && x.Source.Filtered >= 1 })
	n.once("orders", 1000)
	n.refused("has no positions", "schedule", "seek", "orders/orders", "--to", "beginning")

	// Messages that cannot be used are recorded as missed, and do not stop the source.
	n.apply("poison", `mqtt: {connection: m1, topic: poison, id: event.value.id}, overlap: allow`, wait)
	until(t, "the source has subscribed", func() bool { send("poison", false, `{"id":1}`); return n.schedule("poison").Fired == 1 })
	send("poison", false, "{", `{"id":2}`, `{"no":1}`, `"`+strings.Repeat("x", 2<<20)+`"`, `{"id":3}`)
	until(t, "the messages that can be used have fired", func() bool { return n.schedule("poison").Fired == 3 })
	if reasons := n.missed("poison", "is not JSON", "the limit is", "has no event.value.id"); reasons[0] != 1 || reasons[1] != 1 {
		t.Errorf("%v: %+v", reasons, n.fires("poison"))
	}
	n.apply("wrong", `mqtt: {connection: wrong, topic: x}`, wait)
	until(t, "a wrong password says why", func() bool { return strings.Contains(n.schedule("wrong").Source.Why, refusal) })
	n.free("canary-8842")
}
