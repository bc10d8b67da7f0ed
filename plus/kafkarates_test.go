//go:build linux

package plus_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestKafkaRates prints how many records per second the source kafka reads on this machine, with one run for
// 500 records and with one run for each record. All records are written before the trigger is applied.
func TestKafkaRates(t *testing.T) {
	b := startBroker(t)
	n := startNode(t)
	n.run("", "connection", "set", "default/k1", "kafka", "--broker", b.plain, "--tls", "disable")
	const partitions = 6
	for _, c := range []struct {
		name, trigger string
		records       int
		took          func(s *schedule) int64 // returns the number of stored records
	}{
		{"batches", `batch: {max: 500, wait: 1s}}, overlap: allow`, 100_000, func(s *schedule) int64 { return 500 * s.Fired }},
		{"singles", `isolation: read_committed}, overlap: allow`, 20_000, func(s *schedule) int64 { return s.Fired }},
	} {
		b.topic(c.name, partitions)
		var all []*kgo.Record
		for i, v := range numbered(0, c.records) {
			all = append(all, &kgo.Record{Topic: c.name, Partition: int32(i % partitions), Value: []byte(v)})
		}
		if err := b.client.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		n.apply(c.name, `kafka: {connection: k1, topic: `+c.name+`, from: beginning, `+c.trigger, "a: {wait: 1ms}")
		var first, last int64
		var began time.Time
		until(t, "all records are taken", func() bool {
			s := n.schedule(c.name)
			if last = c.took(&s); last > 0 && first == 0 {
				first, began = last, time.Now()
			}
			return last >= int64(c.records)-500 && s.Source.Lag != nil && *s.Source.Lag == 0
		})
		took := time.Since(began)
		t.Logf("%s: %d records in %.1f s, %.0f a second", c.name, last-first, took.Seconds(), float64(last-first)/took.Seconds())
	}
}
