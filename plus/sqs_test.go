//go:build linux

package plus_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// queues is a real server of ElasticMQ, which has the interface of SQS.
type queues struct {
	*daemon
	api *sqs.Client
}

// startQueues starts a server with some queues. The server keeps its messages when it is killed.
func startQueues(t *testing.T, dir string) *queues {
	t.Helper()
	libraries := libraries(t, "elasticmq")
	at := strconv.Itoa(port(t))
	conf := filepath.Join(dir, "elasticmq.conf")
	text := `include classpath("application.conf")
node-address {protocol = http, host = "127.0.0.1", port = ` + at + `, context-path = ""}
rest-sqs {enabled = true, bind-port = ` + at + `, bind-hostname = "127.0.0.1", sqs-limits = strict}
rest-stats {enabled = false}
messages-storage {enabled = true, driver-class = "org.h2.Driver", uri = "jdbc:h2:` + dir + `/elasticmq", username = "sa", password = "sa"}
queues {
  orders {}
  held {defaultVisibilityTimeout = 5 seconds}
  many {}
  strange {}
  dead {}
  poison {deadLettersQueue {name = dead, maxReceiveCount = 3}}
  "steps.fifo" {fifo = true, contentBasedDeduplication = true}
  "bare.fifo" {fifo = true, contentBasedDeduplication = true}
  "dead.fifo" {fifo = true, contentBasedDeduplication = true}
  "redriven.fifo" {fifo = true, contentBasedDeduplication = true, deadLettersQueue {name = "dead.fifo", maxReceiveCount = 3}}
}
`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	q := &queues{daemon: startDaemon(t, "127.0.0.1:"+at, "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dconfig.file="+conf,
		"-cp", filepath.Join(libraries, "*"), "org.elasticmq.server.Main")}
	q.api = sqs.New(sqs.Options{Region: "eu-central-1", BaseEndpoint: aws.String("http://" + q.address), Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "x", SecretAccessKey: "x"}, nil
	})})
	return q
}

func (q *queues) url(queue string) *string {
	return aws.String("http://" + q.address + "/000000000000/" + queue)
}

// send sends messages, up to ten in one request.
func (q *queues) send(queue string, values ...string) {
	q.t.Helper()
	for part := range slices.Chunk(values, 10) {
		ask := sqs.SendMessageBatchInput{QueueUrl: q.url(queue)}
		for i, v := range part {
			e := types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(v),
				MessageAttributes: map[string]types.MessageAttributeValue{"kind": {DataType: aws.String("String"), StringValue: aws.String("x")}}}
			if strings.HasSuffix(queue, ".fifo") {
				e.MessageGroupId = aws.String("g")
			}
			ask.Entries = append(ask.Entries, e)
		}
		until(q.t, "messages are sent", func() bool {
			answer, err := q.api.SendMessageBatch(q.t.Context(), &ask)
			if err == nil && len(answer.Failed) > 0 {
				q.t.Fatalf("%v", *answer.Failed[0].Message)
			}
			return err == nil
		})
	}
}

// count returns the messages of a queue that readers can see, and those that are hidden.
func (q *queues) count(queue string) (visible, hidden string) {
	q.t.Helper()
	answer, err := q.api.GetQueueAttributes(q.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: q.url(queue), AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	if err != nil {
		q.t.Fatal(err)
	}
	return answer.Attributes["ApproximateNumberOfMessages"], answer.Attributes["ApproximateNumberOfMessagesNotVisible"]
}

// TestSQS runs the source sqs against a real server.
func TestSQS(t *testing.T) {
	n := startNode(t)
	q := startQueues(t, n.dir)
	n.run("canary-8842", "secret", "set", "SQS")
	connection := func(name, url string) {
		n.run("", "connection", "set", "default/"+name, "sqs", "--region", "eu-central-1", "--url", url, "--user", "AKIDEXAMPLE", "--password-secret", "SQS")
	}
	connection("q1", "http://"+q.address)
	connection("away", fmt.Sprintf("http://127.0.0.1:%d", port(t)))
	connection("rubbish", "http://"+hostile(t, "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\n\r\n"+strings.Repeat("x", 1<<20)))
	n.run("", "connection", "test", "default/q1")
	n.refused("refused", "connection", "test", "default/away")
	n.refused("cannot be used", "connection", "test", "default/rubbish")
	const wait = "a: {wait: 1ms}"

	// Each message starts one run, even if the node, the source and the server are killed.
	n.apply("orders", `sqs: {connection: q1, queue: orders, filter: "event.value.n >= 0 && event.attributes.kind == 'x'"}, overlap: allow`, wait)
	q.send("orders", numbered(0, 300)...)
	until(t, "the first messages have fired", func() bool { return n.schedule("orders").Fired >= 100 })
	n.kill()
	q.send("orders", numbered(300, 600)...)
	n.start()
	until(t, "the source has gone on", func() bool { return n.schedule("orders").Fired >= 400 })
	q.kill()
	q.start()
	q.send("orders", append(numbered(600, 1000), `{"n":-1}`)...)
	until(t, "all messages have fired", func() bool { x := n.schedule("orders"); return x.Fired >= 1000 && x.Source.Filtered >= 1 })
	until(t, "all messages are deleted", func() bool { visible, hidden := q.count("orders"); return visible == "0" && hidden == "0" })
	n.once("orders", 1000)
	n.refused("has no positions", "schedule", "seek", "orders/orders", "--to", "now")

	// Messages that cannot be used are recorded as missed. They become dead letters, or are deleted if the
	// queue has no queue for those.
	q.send("poison", "{", `{"n":1}`, "}", `{"n":2}`)
	n.apply("poison", `sqs: {connection: q1, queue: poison}, overlap: allow`, wait)
	until(t, "the messages that can be used have fired", func() bool { return n.schedule("poison").Fired == 2 })
	until(t, "the others are dead letters", func() bool { visible, _ := q.count("dead"); return visible == "2" })
	if reasons := n.missed("poison", "is not JSON"); reasons != [3]int{2} {
		t.Errorf("%v: %+v", reasons, n.fires("poison"))
	}
	q.send("strange", "{")
	n.apply("strange", `sqs: {connection: q1, queue: strange}, overlap: allow`, wait)
	until(t, "the message is deleted", func() bool { visible, hidden := q.count("strange"); return visible == "0" && hidden == "0" })

	// One run takes many messages. The messages of a group come in their order.
	q.send("many", numbered(0, 120)...)
	n.apply("many", `sqs: {connection: q1, queue: many, batch: {max: 50, wait: 500ms}}, overlap: allow`, wait)
	until(t, "the messages have fired", func() bool { return n.items("many") == 120 })
	q.send("steps.fifo", numbered(0, 40)...)
	n.apply("steps", `sqs: {connection: q1, queue: steps.fifo}, overlap: allow, params: {n: "${{ trigger.event.value.n }}"}`, wait)
	until(t, "the steps have fired", func() bool { return n.schedule("steps").Fired == 40 })

	q.temporary(n)

	for name, c := range map[string][3]string{"away": {"away", "orders", "refused"}, "noqueue": {"q1", "none", "queue none"}} {
		n.apply(name, `sqs: {connection: `+c[0]+`, queue: `+c[1]+`}`, wait)
		until(t, name+" says why", func() bool { return strings.Contains(n.schedule(name).Source.Why, c[2]) })
	}
	n.free("canary-8842")
}

// temporary tests temporary credentials, whose user may not ask for the attributes of a queue. A message that
// cannot be used does not hold back the later ones of its group, whether the queue has dead letters or not.
func (q *queues) temporary(n *node) {
	t := q.t
	t.Helper()
	to, err := url.Parse("http://" + q.address)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(to)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Amz-Security-Token") != "canary-8843" || !strings.Contains(r.Header.Get("Authorization"), "x-amz-security-token"):
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"__type":"com.amazonaws.sqs#InvalidClientTokenId","message":"the token is not valid"}`))
		case strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetQueueAttributes"):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"__type":"com.amazonaws.sqs#AccessDeniedException","message":"not allowed"}`))
		default:
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(service.Close)
	n.run("canary-8843", "secret", "set", "SESSION")
	n.run("", "connection", "set", "default/t1", "sqs", "--region", "eu-central-1", "--url", service.URL, "--user", "ASIAEXAMPLE", "--password-secret", "SQS", "--session-token-secret", "SESSION")
	n.run(`{"AccessKeyId":"ASIAEXAMPLE","SecretAccessKey":"canary-8842","SessionToken":"canary-8843"}`, "secret", "set", "ROLE")
	n.run("", "connection", "set", "default/t2", "sqs", "--region", "eu-central-1", "--url", service.URL, "--credentials-secret", "ROLE")
	n.run("", "connection", "set", "default/untold", "sqs", "--region", "eu-central-1", "--url", service.URL, "--user", "ASIAEXAMPLE", "--password-secret", "SQS")
	n.run("", "connection", "test", "default/t1")
	n.run("", "connection", "test", "default/t2")
	n.refused("the token is not valid", "connection", "test", "default/untold")
	for _, name := range []string{"bare", "redriven"} {
		queue := name + ".fifo"
		q.send(queue, append(append(numbered(0, 20), "{"), numbered(20, 40)...)...)
		n.apply(name, `sqs: {connection: t1, queue: `+queue+`}, overlap: allow`, "a: {wait: 1ms}")
		until(t, "the later messages of "+queue+" have fired", func() bool { return n.schedule(name).Fired == 40 })
		until(t, queue+" is empty", func() bool { visible, hidden := q.count(queue); return visible == "0" && hidden == "0" })
		if reasons := n.missed(name, "is not JSON"); reasons != [3]int{1} {
			t.Errorf("%s: %v", queue, reasons)
		}
	}
	if visible, _ := q.count("dead.fifo"); visible != "1" {
		t.Errorf("%s messages are dead letters", visible)
	}
	n.free("canary-8843")
}

// TestSQSHeld: messages stay hidden while the trigger has no room, longer than the service hides them by
// itself. A source that ends returns them at once.
func TestSQSHeld(t *testing.T) {
	n := startNode(t)
	q := startQueues(t, n.dir)
	n.run("canary-8842", "secret", "set", "SQS")
	n.run("", "connection", "set", "default/q1", "sqs", "--region", "eu-central-1", "--url", "http://"+q.address, "--user", "AKIDEXAMPLE", "--password-secret", "SQS")
	q.send("held", `{"n":0}`)
	n.apply("held", `sqs: {connection: q1, queue: held}, max_concurrent_runs: 1`, "a: {approval: {}}")
	until(t, "the first message fills the room", func() bool { return n.schedule("held").Fired == 1 })
	q.send("held", numbered(1, 20)...)
	until(t, "the source has the messages", func() bool { visible, hidden := q.count("held"); return visible == "0" && hidden != "0" })
	for began := time.Now(); time.Since(began) < 70*time.Second; {
		answer, err := q.api.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: q.url("held"), WaitTimeSeconds: 10, VisibilityTimeout: 1})
		if err != nil || len(answer.Messages) > 0 {
			t.Fatalf("another reader gets %v, %v", answer, err)
		}
	}
	n.run("", "schedule", "pause", "held/held")
	until(t, "a paused trigger returns its messages", func() bool { visible, hidden := q.count("held"); return visible != "0" && hidden == "0" })
}
