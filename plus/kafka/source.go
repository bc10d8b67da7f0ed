package kafka

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/feed"
	"skein.dev/skein/plus/stream"
)

// Main runs the source. It returns nil when ctx has ended, or an error if the source cannot continue.
func Main(ctx context.Context, f *feed.Feed) error {
	var with broker.KafkaInput
	if err := stream.Read(&f.Start, &broker.Kafka{}, &with); err != nil {
		return err
	}
	opts, err := options(&f.Start)
	if err != nil {
		return err
	}
	if with.Isolation != broker.ReadUncommitted {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return stream.Permanent("%w", err)
	}
	defer client.CloseAllowingRebalance()
	s := &source{with: &with, most: f.Start.Events, client: client, admin: kadm.NewClient(client), failing: map[int]bool{}}
	if with.By == broker.ByOffsets {
		return stream.Follow(ctx, f, &ranges{source: s})
	}
	return stream.Follow(ctx, f, s)
}

// Test asks the brokers for their topics. This also checks the user and the password.
func Test(ctx context.Context, start *feed.Start) (found string, err error) {
	opts, err := options(start)
	if err != nil {
		return "", err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return "", err
	}
	defer client.Close()
	all, err := kadm.NewClient(client).BrokerMetadata(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("a cluster of Kafka with %d brokers", len(all.Brokers)), nil
}

// source reads one topic.
type source struct {
	with   *broker.KafkaInput
	most   int // bounds the records of a poll
	client *kgo.Client
	admin  *kadm.Client
	at     cursor  // position after the last given record
	reads  int     // the client reads the partitions below this number
	ends   []int64 // ends of the partitions at the last look
	// failing holds the partitions whose offset a broker refused. The client reads them again after move.
	failing map[int]bool
}

// partitions returns the id of the topic, and the number of its partitions.
func (s *source) partitions(ctx context.Context) (id string, n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	all, err := s.admin.ListTopics(ctx, s.with.Topic)
	if err != nil {
		return "", 0, fmt.Errorf("the request to the brokers failed: %w", err)
	}
	t, ok := all[s.with.Topic]
	switch {
	case errors.Is(t.Err, kerr.UnknownTopicOrPartition) || !ok:
		return "", 0, fmt.Errorf("there is no topic %s, or this user may not see it", s.with.Topic)
	case t.Err != nil:
		return "", 0, fmt.Errorf("topic %s: %w", s.with.Topic, t.Err)
	}
	n = len(t.Partitions)
	for i := range n {
		if _, ok := t.Partitions[int32(i)]; !ok {
			return "", 0, fmt.Errorf("topic %s: partition %d is missing in the answer of the broker", s.with.Topic, i)
		}
	}
	if n == 0 || n > partitionsMax {
		return "", 0, stream.Permanent("topic %s has %d partitions; a source reads 1 to %d", s.with.Topic, n, partitionsMax)
	}
	id = base64.RawURLEncoding.EncodeToString(t.ID[:])
	return id, n, nil
}

// list returns one offset for each partition. ask is the request for the offset, for example for the end of
// each partition.
func (s *source) list(ctx context.Context, ask func(context.Context, ...string) (kadm.ListedOffsets, error), n int) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	all, err := ask(ctx, s.with.Topic)
	if err == nil {
		err = all.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("the request for the offsets of %s failed: %w", s.with.Topic, err)
	}
	out := make([]int64, n)
	for i := range out {
		o, ok := all.Lookup(s.with.Topic, int32(i))
		if !ok {
			return nil, fmt.Errorf("the brokers gave no offset of partition %d of %s", i, s.with.Topic)
		}
		out[i] = o.Offset
	}
	return out, nil
}

// Restore implements stream.Log.
func (s *source) Restore(raw json.RawMessage) (err error) {
	s.at, err = readCursor(raw)
	return err
}

// Begin implements stream.Log.
func (s *source) Begin(ctx context.Context, since time.Time) error {
	id, n, err := s.partitions(ctx)
	if err != nil {
		return err
	}
	ask := s.admin.ListStartOffsets
	if !since.IsZero() {
		ask = func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
			return s.admin.ListOffsetsAfterMilli(ctx, since.UnixMilli(), topics...)
		}
	}
	offsets, err := s.list(ctx, ask, n)
	if err != nil {
		return err
	}
	s.at = cursorAt(id, offsets)
	return nil
}

// Cursor implements stream.Log.
func (s *source) Cursor() any { return &s.at }

// Look implements stream.Log. It counts lost records, and adds new partitions.
func (s *source) Look(ctx context.Context, lines *stream.Lines) error {
	id, n, err := s.partitions(ctx)
	if err != nil {
		return err
	}
	starts, err := s.list(ctx, s.admin.ListStartOffsets, n)
	if err != nil {
		return err
	}
	ends, err := s.list(ctx, s.admin.ListEndOffsets, n)
	if err != nil {
		return err
	}
	if id != s.at.ID || n < len(s.at.Next) {
		return s.recreated(id, starts, lines)
	}
	for p := len(s.at.Next); p < n; p++ { // a new partition holds no records that are older than the trigger
		s.at.Next = append(s.at.Next, [2]int64{starts[p], -1})
	}
	s.ends = ends
	if err := s.gaps(starts, lines); err != nil {
		return err
	}
	if s.with.By != broker.ByOffsets && s.reads < n {
		add := map[int32]kgo.Offset{}
		for ; s.reads < n; s.reads++ {
			add[int32(s.reads)] = s.offset(s.reads)
		}
		s.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{s.with.Topic: add})
	}
	return nil
}

// Lag implements stream.Log. It counts the records between the position and the ends at the last look.
func (s *source) Lag() *int64 {
	if len(s.ends) < len(s.at.Next) {
		return nil
	}
	var n int64
	for p := range s.at.Next {
		n += max(0, s.ends[p]-s.at.Next[p][0])
	}
	return &n
}

// offset returns the offset at which to continue reading a partition.
func (s *source) offset(p int) kgo.Offset {
	next := s.at.Next[p]
	return kgo.NewOffset().At(next[0]).WithEpoch(int32(next[1]))
}

// gaps moves the cursor past lost records, and reports their number.
func (s *source) gaps(starts []int64, lines *stream.Lines) error {
	var lost int64
	var why []string
	for p := range s.at.Next {
		next := s.at.Next[p][0]
		switch {
		case next < starts[p]:
			lost += starts[p] - next
			why = append(why, fmt.Sprintf("partition %d begins at offset %d, and %d was the next to read", p, starts[p], next))
			s.move(p, starts[p])
		case next > s.ends[p]:
			lost++ // the real number is not known
			why = append(why, fmt.Sprintf("partition %d ends at offset %d, and %d was read, so a broker has lost records", p, s.ends[p], next-1))
			s.move(p, s.ends[p])
		case s.failing[p]:
			s.move(p, next)
		}
	}
	clear(s.failing)
	if lost == 0 {
		return nil
	}
	return lines.Lost(lost, "topic "+s.with.Topic+": "+strings.Join(why, "; "))
}

// move makes the client continue a partition at an offset.
func (s *source) move(p int, to int64) {
	if to != s.at.Next[p][0] {
		s.at.Next[p] = [2]int64{to, -1}
	}
	if p < s.reads {
		s.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{s.with.Topic: {int32(p): {Epoch: -1, Offset: to}}})
	}
}

// recreated moves the position to the beginning of a topic that was deleted and created again.
func (s *source) recreated(id string, starts []int64, lines *stream.Lines) error {
	s.at = cursorAt(id, starts)
	if err := lines.Lost(1, "topic "+s.with.Topic+" was deleted and created again; how many records of the old one were not read is not known"); err != nil {
		return err
	}
	return &feed.Error{Code: feed.Away, Err: errors.New("the topic was created again; it is read from its beginning")}
}

// Read implements stream.Log.
func (s *source) Read(ctx context.Context, lines *stream.Lines) error {
	got := s.client.PollRecords(ctx, s.most)
	if err := s.records(got, lines); err != nil {
		return err
	}
	for _, e := range got.Errors() {
		if err := s.failed(ctx, e, lines); err != nil {
			return err
		}
		if ctx.Err() == nil {
			return stream.ErrLook
		}
	}
	return nil
}

// failed handles an error of a partition. It returns nil if the next look at the partitions will find the
// cause.
func (s *source) failed(ctx context.Context, e kgo.FetchError, lines *stream.Lines) error {
	var lost *kgo.ErrDataLoss
	switch {
	case ctx.Err() != nil || errors.Is(e.Err, context.DeadlineExceeded) || errors.Is(e.Err, context.Canceled):
		return nil
	case errors.As(e.Err, &lost) && int(e.Partition) < len(s.at.Next):
		if err := lines.Flush(); err != nil {
			return err
		}
		s.move(int(e.Partition), lost.ResetTo)
		return lines.Lost(1, fmt.Sprintf("topic %s: a broker has cut partition %d at offset %d, and %d was read; how many records are lost is not known", s.with.Topic, e.Partition, lost.ResetTo, lost.ConsumedTo-1))
	case errors.Is(e.Err, kerr.OffsetOutOfRange):
		s.failing[int(e.Partition)] = true
		return stream.Pause(ctx)
	}
	return fmt.Errorf("topic %s, partition %d: %w", s.with.Topic, e.Partition, e.Err)
}

// records adds fetched records to lines.
func (s *source) records(got kgo.Fetches, lines *stream.Lines) error {
	for it := got.RecordIter(); !it.Done(); {
		r := it.Next()
		if int(r.Partition) >= len(s.at.Next) || r.Offset < s.at.Next[r.Partition][0] {
			continue // fetched before the position moved past a gap
		}
		if !r.Attrs.IsControl() {
			if err := lines.Add(eventOf(r, s.at.ID, s.with.Value)); err != nil {
				return err
			}
		}
		s.at.Next[r.Partition] = [2]int64{r.Offset + 1, int64(r.LeaderEpoch)}
		lines.Moved()
	}
	return nil
}
