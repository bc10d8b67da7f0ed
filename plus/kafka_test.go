//go:build linux

package plus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// numbered returns records {"n": N} for the numbers from from to to-1.
func numbered(from, to int) (all []string) {
	for n := from; n < to; n++ {
		all = append(all, fmt.Sprintf(`{"n":%d}`, n))
	}
	return all
}

// TestKafka runs the source kafka against a real broker.
func TestKafka(t *testing.T) {
	b := startBroker(t)
	n := startNode(t)
	n.run("canary-8842", "secret", "set", "KAFKA")
	n.run("", "connection", "set", "default/k1", "kafka", "--broker", b.plain, "--tls", "disable")
	n.run("", "connection", "test", "default/k1")
	ca := filepath.Join(n.dir, "ca.pem")
	if err := os.WriteFile(ca, []byte(b.certificate), 0o600); err != nil {
		t.Fatal(err)
	}
	n.run("", "connection", "set", "default/safe", "kafka", "--broker", b.secured, "--ca-file", ca, "--sasl", "plain", "--user", "skein", "--password-secret", "KAFKA")
	n.run("", "connection", "set", "default/wrong", "kafka", "--broker", b.secured, "--ca-file", ca, "--sasl", "plain", "--user", "other", "--password-secret", "KAFKA")
	n.run("", "connection", "set", "default/strange", "kafka", "--broker", b.secured, "--sasl", "plain", "--user", "skein", "--password-secret", "KAFKA")
	n.run("", "connection", "set", "default/away", "kafka", "--broker", fmt.Sprintf("127.0.0.1:%d", port(t)), "--tls", "disable")
	for _, topic := range []string{"orders", "poison", "gap", "safe", "many"} {
		b.topic(topic, 3)
	}
	const wait = "a: {wait: 1ms}"

	// Each record starts one run, even if skein-plus and the node are killed.
	b.send("orders", 3, numbered(0, 100)...)
	n.apply("orders", `kafka: {connection: k1, topic: orders, from: beginning, filter: "event.value.n >= 0"}, overlap: allow, params: {n: "${{ trigger.event.value.n }}"}`, wait)
	until(t, "the first records have fired", func() bool { return n.schedule("orders").Fired >= 20 })
	n.signal(syscall.SIGKILL)
	b.send("orders", 3, numbered(100, 200)...)
	until(t, "the source was started again", func() bool { return n.schedule("orders").Fired >= 150 })
	old := n.sources()
	n.kill()
	until(t, "the source died with its node", func() bool {
		return !slices.ContainsFunc(n.sources(), func(pid int) bool { return slices.Contains(old, pid) })
	})
	b.send("orders", 3, append(numbered(200, 300), `{"n":-1}`)...)
	n.start()
	until(t, "all records have fired", func() bool { s := n.schedule("orders"); return s.Fired >= 300 && s.Source.Filtered == 1 })
	n.once("orders", 300)

	// After a seek to the beginning, nothing fires a second time.
	n.run("", "schedule", "seek", "orders/orders", "--to", "beginning")
	b.send("orders", 3, `{"n":300}`)
	until(t, "the source has read all again", func() bool { return n.schedule("orders").Source.Filtered == 2 && n.schedule("orders").Fired == 301 })
	n.once("orders", 301)

	// A new partition is read from its beginning.
	if _, err := b.admin.CreatePartitions(t.Context(), 1, "orders"); err != nil {
		t.Fatal(err)
	}
	until(t, "the producer knows the partition", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return b.client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Partition: 3, Value: []byte(`{"n":301}`)}).FirstErr() == nil
	})
	until(t, "a record of the new partition has fired", func() bool { return n.schedule("orders").Fired == 302 })

	// Records that cannot be used are recorded as missed, and do not stop the source.
	b.send("poison", 1, "{", `{"n":1}`, string([]byte{0xff, 0xfe}), `{"n":2}`)
	// A tombstone, which is a record without a value.
	if err := b.client.ProduceSync(t.Context(), &kgo.Record{Topic: "poison", Key: []byte("k")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	n.apply("poison", `kafka: {connection: k1, topic: poison, from: beginning}, overlap: allow`, wait)
	until(t, "the records that can be used have fired", func() bool { return n.schedule("poison").Fired == 3 })
	missed := 0
	for _, f := range n.fires("poison") {
		if f.Outcome == "missed" && strings.Contains(f.Reason, "is not JSON") {
			missed++
		}
	}
	if missed != 2 {
		t.Errorf("%+v", n.fires("poison"))
	}

	// Records that are deleted before they are read are counted.
	b.send("gap", 3, numbered(0, 30)...)
	n.apply("gap", `kafka: {connection: k1, topic: gap, from: beginning}, overlap: allow`, wait)
	until(t, "the records have fired", func() bool { return n.schedule("gap").Fired == 30 })
	n.run("", "schedule", "pause", "gap/gap")
	b.send("gap", 3, numbered(30, 60)...)
	at := kadm.Offsets{}
	at.AddOffset("gap", 0, 17, -1)
	at.AddOffset("gap", 2, 12, -1)
	if _, err := b.admin.DeleteRecords(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	n.run("", "schedule", "resume", "gap/gap")
	until(t, "the trigger is paused because of the loss", func() bool { s := n.schedule("gap"); return s.State == "paused" && s.Source.Lost == 9 })
	n.run("", "schedule", "resume", "gap/gap")
	until(t, "the rest has fired", func() bool { return n.schedule("gap").Fired == 51 })

	// TLS and SASL work, and no file contains a secret.
	n.apply("safe", `kafka: {connection: safe, topic: safe, value: text}, overlap: allow`, wait)
	until(t, "the source has a cursor", func() bool { return n.schedule("safe").Source.Cursor != "" })
	b.send("safe", 1, "no json")
	until(t, "a record of the secured listener has fired", func() bool { return n.schedule("safe").Fired == 1 })
	n.free("canary-8842")

	// SCRAM works with the right password, and a wrong password is refused.
	n.run("wrong-8842", "secret", "set", "WRONG")
	for _, mechanism := range []string{"scram-sha-256", "scram-sha-512"} {
		sign := func(name, secret string) {
			n.run("", "connection", "set", "default/"+name, "kafka", "--broker", b.secured, "--ca-file", ca, "--sasl", mechanism, "--user", "skein", "--password-secret", secret)
		}
		sign(mechanism, "KAFKA")
		sign("wrong-"+mechanism, "WRONG")
		n.run("", "connection", "test", "default/"+mechanism)
		n.refused("SASL_AUTHENTICATION_FAILED", "connection", "test", "default/wrong-"+mechanism)
		n.apply(mechanism, `kafka: {connection: `+mechanism+`, topic: safe, value: text, from: beginning}, overlap: allow`, wait)
		until(t, "a record has fired over "+mechanism, func() bool { return n.schedule(mechanism).Fired == 1 })
	}

	// One run takes many records.
	n.apply("many", `kafka: {connection: k1, topic: many, from: beginning, batch: {max: 50, wait: 2s}}, overlap: allow`, wait)
	until(t, "the source has a cursor", func() bool { return n.schedule("many").Source.Cursor != "" })
	b.send("many", 3, numbered(0, 120)...)
	until(t, "the records have fired", func() bool { s := n.schedule("many"); return s.Source.Lag != nil && *s.Source.Lag == 0 && s.Fired >= 3 })

	// The state of a trigger says in words why the trigger cannot read.
	for name, c := range map[string][2]string{"away": {"away", "refused"}, "wrong": {"wrong", "SASL_AUTHENTICATION_FAILED"}, "strange": {"strange", "certificate"},
		"notopic": {"k1", "there is no topic"}} {
		n.apply(name, `kafka: {connection: `+c[0]+`, topic: `+name+`}`, wait)
		until(t, name+" says why", func() bool { return strings.Contains(n.schedule(name).Source.Why, c[1]) })
	}
}

// TestKafkaThroughKills sends 10,000 numbered records while the broker, the node and the source are killed
// and frozen. Each record must start one run.
func TestKafkaThroughKills(t *testing.T) {
	const records, partitions = 10_000, 5
	b := startBroker(t)
	n := startNode(t)
	b.topic("orders", partitions)
	n.run("", "connection", "set", "default/k1", "kafka", "--broker", b.plain, "--tls", "disable")
	n.apply("orders", `kafka: {connection: k1, topic: orders, from: beginning}, overlap: allow, params: {n: "${{ trigger.event.value.n }}"}`, "a: {wait: 1ms}")
	sent := make(chan error, 1)
	go func() { // the client repeats unacknowledged records after a kill, without duplicates
		all := numbered(0, records)
		for i := 0; i < records; i += 100 {
			var part []*kgo.Record
			for j, v := range all[i : i+100] {
				part = append(part, &kgo.Record{Topic: "orders", Partition: int32(j % partitions), Value: []byte(v)})
			}
			if err := b.client.ProduceSync(t.Context(), part...).FirstErr(); err != nil {
				sent <- err
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		sent <- nil
	}()
	for i := range 9 {
		until(t, "some records have fired", func() bool { return n.schedule("orders").Fired >= int64(records*(i+1)/12) })
		switch i % 4 {
		case 0:
			n.signal(syscall.SIGKILL)
		case 1:
			b.kill()
			b.start()
		case 2:
			n.kill()
			n.start()
		case 3:
			n.signal(syscall.SIGSTOP)
			n.kill()
			n.start()
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	until(t, "all records have fired", func() bool { return n.schedule("orders").Fired >= records })
	n.once("orders", records)
	if s := n.schedule("orders"); s.Source.Lost != 0 {
		t.Errorf("%+v", s)
	}
}

// TestKafkaOffsets starts runs for ranges of offsets. Each offset is in the range of one run, also if the
// node and the source are killed. Offsets of an open transaction wait until the transaction ends.
func TestKafkaOffsets(t *testing.T) {
	b := startBroker(t)
	n := startNode(t)
	n.run("", "connection", "set", "default/k1", "kafka", "--broker", b.plain, "--tls", "disable")
	b.topic("orders", 3)
	b.send("orders", 3, numbered(0, 100)...)
	n.apply("orders", `kafka: {connection: k1, topic: orders, from: beginning, by: offsets, every: 1s, max_offsets: 60}, overlap: allow, params: {n: "${{ trigger.event.ranges }}"}`, "a: {wait: 1ms}")
	// covered returns the offsets in the ranges of the runs, by partition, and the number of runs.
	covered := func() (offsets int64, runs int) {
		t.Helper()
		seen := map[[2]int64]bool{}
		for _, f := range n.fires("orders") {
			var all []struct{ Partition, From, To int64 }
			var is struct {
				Params struct{ N string }
			}
			if err := json.Unmarshal([]byte(n.run("", "run", "get", f.Run, "-o", "json")), &is); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(is.Params.N), &all); err != nil {
				t.Fatalf("%v: %q", err, is.Params.N)
			}
			sum := int64(0)
			for _, r := range all {
				sum += r.To - r.From
				for o := r.From; o < r.To; o++ {
					if at := [2]int64{r.Partition, o}; seen[at] {
						t.Errorf("offset %d of partition %d is in two ranges", o, r.Partition)
					} else {
						seen[at] = true
					}
				}
			}
			if sum > 60 {
				t.Errorf("run %s has %d offsets", f.Run, sum)
			}
			runs++
		}
		return int64(len(seen)), runs
	}
	until(t, "the first records are in ranges", func() bool { return n.schedule("orders").Fired >= 2 })
	if offsets, runs := covered(); offsets != 100 || runs != 2 {
		t.Errorf("%d offsets in %d runs", offsets, runs)
	}
	n.signal(syscall.SIGKILL)
	b.send("orders", 3, numbered(100, 130)...)
	until(t, "the source was started again", func() bool { return n.schedule("orders").Fired >= 3 })
	n.kill()
	b.send("orders", 3, numbered(130, 160)...)
	n.start()
	until(t, "the ranges are complete", func() bool { return n.schedule("orders").Fired >= 4 })
	if offsets, _ := covered(); offsets != 160 {
		t.Errorf("%d offsets are in ranges", offsets)
	}

	// The records of an open transaction are in no range.
	producer, err := kgo.NewClient(kgo.SeedBrokers(b.plain), kgo.TransactionalID("test"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	if err := producer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := producer.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: 0, Value: []byte(`{"n":160}`)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	b.send("orders", 2, `{"n":161}`, `{"n":162}`) // partition 0 waits for the transaction, and 1 does not
	until(t, "the other partition is in a range", func() bool { return n.schedule("orders").Fired >= 5 })
	if offsets, _ := covered(); offsets != 161 {
		t.Errorf("%d offsets are in ranges", offsets)
	}
	if err := producer.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	until(t, "the partition of the transaction is in a range", func() bool { return n.schedule("orders").Fired >= 6 })
	if offsets, _ := covered(); offsets != 164 { // the count includes the mark at the end of the transaction
		t.Errorf("%d offsets are in ranges", offsets)
	}
}
