package kafka

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/feed"
	"skein.dev/skein/plus/stream"
)

// ranges makes events of ranges of offsets of a topic, and reads no records.
type ranges struct {
	*source
	next time.Time // the time at which the ends of the partitions are read again
}

// span is a range of offsets of a partition: from From until before To.
type span struct {
	Partition int   `json:"partition"`
	From      int64 `json:"from"`
	To        int64 `json:"to"`
}

// Read implements stream.Log. It waits until the next look is due, and adds one event if there are new
// offsets.
func (r *ranges) Read(ctx context.Context, lines *stream.Lines) error {
	timer := time.NewTimer(time.Until(r.next))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-timer.C:
	}
	ask := r.admin.ListCommittedOffsets // the ends of the records that no open transaction can change
	if r.with.Isolation == broker.ReadUncommitted {
		ask = r.admin.ListEndOffsets
	}
	ends, err := r.list(context.WithoutCancel(ctx), ask, len(r.at.Next)) // the request continues when the look ends
	if err != nil {
		return stream.Pause(ctx) // the next look finds the cause
	}
	spans, rest := spansOf(r.at.Next, ends, r.with.OffsetsMax)
	if !rest {
		r.next = time.Now().Add(time.Duration(r.with.Every) * time.Millisecond)
	}
	if len(spans) == 0 {
		return nil
	}
	if err := lines.Add(r.event(spans)); err != nil {
		return err
	}
	for _, s := range spans {
		r.at.Next[s.Partition] = [2]int64{s.To, -1}
	}
	lines.Moved()
	return nil
}

// spansOf returns the new offsets of partitions, at most most of them in all. Each partition with new offsets
// gets a share. rest reports whether further offsets are left.
func spansOf(next [][2]int64, ends []int64, most int64) (all []span, rest bool) {
	for p, n := range next {
		if n[0] < ends[p] {
			all = append(all, span{p, n[0], ends[p]})
		}
	}
	for i := range all {
		s := &all[i]
		share := max(1, most/int64(len(all)-i)) // later partitions share the offsets that earlier partitions left
		if s.To-s.From > share {
			s.To, rest = s.From+share, true
		}
		if most -= s.To - s.From; most <= 0 {
			return all[:i+1], rest || i+1 < len(all)
		}
	}
	return all, rest
}

// event makes the event of ranges. Its fields starting and ending have all partitions, in the form of the
// options startingOffsets and endingOffsets of Spark.
func (r *ranges) event(spans []span) feed.Event {
	starting, ending := map[string]int64{}, map[string]int64{}
	for p, n := range r.at.Next {
		starting[strconv.Itoa(p)], ending[strconv.Itoa(p)] = n[0], n[0]
	}
	var total int64
	for _, s := range spans {
		ending[strconv.Itoa(s.Partition)] = s.To
		total += s.To - s.From
	}
	raw, _ := json.Marshal(spans) // the encoding of numbers never fails
	sum := sha256.Sum256(raw)
	topic := r.with.Topic
	return stream.Event(fmt.Sprintf("%s %s offsets %x", topic, r.at.ID[:min(len(r.at.ID), 8)], sum[:8]), fmt.Sprintf("%d offsets of %s", total, topic), time.Now(), struct {
		Topic    string                      `json:"topic"`
		Offsets  int64                       `json:"offsets"`
		Ranges   []span                      `json:"ranges"`
		Starting map[string]map[string]int64 `json:"starting"`
		Ending   map[string]map[string]int64 `json:"ending"`
	}{topic, total, spans, map[string]map[string]int64{topic: starting}, map[string]map[string]int64{topic: ending}}, nil)
}
