//go:build linux

package plus_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// rabbit is a real RabbitMQ broker. It also takes sessions with TLS, in which a client can sign in with its
// certificate, and AMQP 1.0.
type rabbit struct {
	*daemon
	secured                     string // address with TLS
	authority, certificate, key string // paths of files
	channel                     *amqp.Channel
}

func startRabbit(t *testing.T, dir string) *rabbit {
	t.Helper()
	address, conf := fmt.Sprintf("127.0.0.1:%d", port(t)), filepath.Join(dir, "rabbit.conf")
	r := &rabbit{secured: fmt.Sprintf("127.0.0.1:%d", port(t)), authority: filepath.Join(dir, "authority.pem"), certificate: filepath.Join(dir, "rabbit.pem"), key: filepath.Join(dir, "rabbit.key")}
	by, authority, _ := signed(t, nil)
	_, certificate, key := signed(t, by)
	text := "listeners.tcp.1 = " + address + "\ndefault_user = skein\ndefault_pass = canary-8842\nlisteners.ssl.1 = " + r.secured + `
ssl_options.cacertfile = ` + r.authority + `
ssl_options.certfile = ` + r.certificate + `
ssl_options.keyfile = ` + r.key + `
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = false
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = EXTERNAL
ssl_cert_login_from = common_name
amqp1_0.default_user = skein
`
	for path, text := range map[string]string{conf: text, r.authority: authority, r.certificate: certificate, r.key: key, filepath.Join(dir, "plugins"): "[rabbitmq_amqp1_0, rabbitmq_auth_mechanism_ssl]."} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names := fmt.Sprintf("ERL_EPMD_PORT=%d", port(t)) // port of Erlang's name server
	env := []string{"HOME=" + dir, "RABBITMQ_NODENAME=skein@localhost", "RABBITMQ_MNESIA_BASE=" + dir + "/rabbit", "RABBITMQ_LOGS=-", "RABBITMQ_CONFIG_FILE=" + conf,
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + dir + "/plugins", fmt.Sprintf("RABBITMQ_DIST_PORT=%d", port(t)), "ERL_EPMD_ADDRESS=127.0.0.1", names}
	t.Cleanup(func() {
		until(t, "the daemon of Erlang has noticed that the broker has ended", func() bool {
			end := exec.Command("epmd", "-kill")
			end.Env = append(os.Environ(), names)
			out, err := end.CombinedOutput()
			const refusal, done = "living nodes", "Killed"
			return err != nil && !strings.Contains(string(out), refusal) || strings.Contains(string(out), done)
		})
	})
	r.daemon = startDaemonWith(t, env, address, "/usr/lib/rabbitmq/bin/rabbitmq-server")
	r.connect()
	return r
}

// connect connects the test as a sender.
func (r *rabbit) connect() {
	r.t.Helper()
	until(r.t, "the broker takes a session", func() bool {
		conn, err := amqp.Dial("amqp://skein:canary-8842@" + r.address + "/")
		if err == nil {
			r.t.Cleanup(func() { _ = conn.Close() })
			r.channel, err = conn.Channel()
		}
		return err == nil && r.channel.Confirm(false) == nil
	})
}

func (r *rabbit) queue(name string, args amqp.Table) {
	r.t.Helper()
	if _, err := r.channel.QueueDeclare(name, true, false, false, false, args); err != nil {
		r.t.Fatal(err)
	}
}

// send sends messages. The id of each message is its value.
func (r *rabbit) send(queue string, values ...string) {
	r.t.Helper()
	for _, v := range values {
		ok, err := r.channel.PublishWithDeferredConfirmWithContext(r.t.Context(), "", queue, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: v[:min(len(v), 50)], Body: []byte(v),
			Headers: amqp.Table{"kind": "x"}})
		if err != nil || !ok.Wait() {
			r.t.Fatalf("a message is not sent: %v", err)
		}
	}
}

// TestAMQP runs the source amqp against a real broker.
func TestAMQP(t *testing.T) {
	n := startNode(t)
	r := startRabbit(t, n.dir)
	n.run("canary-8842", "secret", "set", "RABBIT")
	n.run("wrong-8842", "secret", "set", "WRONG")
	_, at, _ := strings.Cut(r.address, ":")
	connection := func(name, at, secret string, more ...string) {
		n.run("", append([]string{"connection", "set", "default/" + name, "amqp", "--host", "127.0.0.1", "--port", at, "--user", "skein", "--password-secret", secret, "--tls", "disable"}, more...)...)
	}
	connection("a1", at, "RABBIT")
	connection("wrong", at, "WRONG")
	connection("novhost", at, "RABBIT", "--vhost", "none")
	_, rubbish, _ := strings.Cut(hostile(t, "HTTP/1.1 400 Bad Request\r\n\r\n"+strings.Repeat("x", 1<<20)), ":")
	connection("rubbish", rubbish, "RABBIT")
	n.run("", "connection", "test", "default/a1")
	n.refused("username or password not allowed", "connection", "test", "default/wrong")
	n.refused("vhost", "connection", "test", "default/novhost")
	n.refused("cannot be used", "connection", "test", "default/rubbish")
	const wait = "a: {wait: 1ms}"

	// Each message starts one run, even if the node, the source and the broker are killed.
	r.queue("orders", nil)
	n.apply("orders", `amqp: {connection: a1, queue: orders, filter: "event.value.n >= 0 && event.headers.kind == 'x'"}, overlap: allow`, wait)
	r.send("orders", numbered(0, 300)...)
	until(t, "the first messages have fired", func() bool { return n.schedule("orders").Fired >= 100 })
	n.kill()
	r.send("orders", numbered(300, 600)...)
	n.start()
	until(t, "the source has gone on", func() bool { return n.schedule("orders").Fired >= 400 })
	r.kill()
	r.start()
	r.connect()
	r.send("orders", append(numbered(600, 1000), `{"n":-1}`)...)
	until(t, "all messages have fired", func() bool { x := n.schedule("orders"); return x.Fired >= 1000 && x.Source.Filtered >= 1 })
	n.once("orders", 1000)
	n.refused("has no positions", "schedule", "seek", "orders/orders", "--to", "now")

	// Messages that cannot be used are recorded as missed, and become dead letters.
	r.queue("dead", nil)
	r.queue("poison", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
	r.send("poison", "{", `{"n":1}`, `"`+strings.Repeat("x", 2<<20)+`"`, `{"n":2}`)
	n.apply("poison", `amqp: {connection: a1, queue: poison, prefetch: 10}, overlap: allow`, wait)
	until(t, "the messages that can be used have fired", func() bool { return n.schedule("poison").Fired == 2 })
	until(t, "the others are dead letters", func() bool {
		q, err := r.channel.QueueDeclarePassive("dead", true, false, false, false, nil)
		return err == nil && q.Messages == 2
	})
	if reasons := n.missed("poison", "is not JSON", "the limit is"); reasons != [3]int{1, 1} {
		t.Errorf("%v: %+v", reasons, n.fires("poison"))
	}

	// One run takes many messages. They stay in the broker until the trigger takes them.
	r.queue("many", nil)
	r.send("many", numbered(0, 120)...)
	n.apply("many", `amqp: {connection: a1, queue: many, batch: {max: 50, wait: 500ms}}, overlap: allow`, wait)
	until(t, "the messages have fired", func() bool { return n.items("many") == 120 })
	for name, c := range map[string][3]string{"wrong": {"wrong", "orders", "username or password not allowed"}, "noqueue": {"a1", "none", "no queue"}} {
		n.apply(name, `amqp: {connection: `+c[0]+`, queue: `+c[1]+`}`, wait)
		until(t, name+" says why", func() bool { return strings.Contains(n.schedule(name).Source.Why, c[2]) })
	}
	n.free("canary-8842", "rabbit.conf")
}
