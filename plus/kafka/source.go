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
)

// lookEvery is the time between two looks at the partitions and at their ends.
const lookEvery = 10 * time.Second

// outageMax is the time for which brokers that have answered before may be silent. Then the source says that
// they are away.
const outageMax = 30 * time.Second

// Main is the source. It returns nil when ctx has ended, and otherwise why it cannot read on.
func Main(ctx context.Context, f *feed.Feed) error {
	var with broker.KafkaInput
	if err := json.Unmarshal(f.Start.With, &with); err != nil || with.Topic == "" {
		return &feed.Error{Code: feed.Permanent, Err: errors.New("the input names no topic")}
	}
	opts, err := options(&f.Start, &with)
	if err != nil {
		return &feed.Error{Code: feed.Permanent, Err: err}
	}
	stored, at, err := readCursor(f.Start.Cursor)
	if err != nil {
		return &feed.Error{Code: feed.Permanent, Err: err}
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return &feed.Error{Code: feed.Permanent, Err: err}
	}
	defer client.CloseAllowingRebalance()
	s := &source{feed: f, with: &with, client: client, admin: kadm.NewClient(client), at: stored, failing: map[int]bool{}}
	if s.at == nil {
		err = s.begin(ctx, at)
	}
	if err == nil {
		err = s.run(ctx)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// source reads one topic.
type source struct {
	feed   *feed.Feed
	with   *broker.KafkaInput
	client *kgo.Client
	admin  *kadm.Client
	at     *cursor // the position after what was given
	reads  int     // partitions that the client reads: those below
	ends   []int64 // the ends of the partitions at the last look
	// failing are partitions whose offset a broker refused. The client reads them again after move.
	failing map[int]bool
}

// partitions returns the id of the topic and the number of its partitions.
func (s *source) partitions(ctx context.Context) (id string, n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	all, err := s.admin.ListTopics(ctx, s.with.Topic)
	if err != nil {
		return "", 0, fmt.Errorf("the brokers cannot be asked: %w", err)
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
		return "", 0, &feed.Error{Code: feed.Permanent, Err: fmt.Errorf("topic %s has %d partitions; a source reads 1 to %d", s.with.Topic, n, partitionsMax)}
	}
	id = base64.RawURLEncoding.EncodeToString(t.ID[:])
	return id, n, nil
}

// list asks for one offset of each partition.
func (s *source) list(ctx context.Context, ask func(context.Context, ...string) (kadm.ListedOffsets, error), n int) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	all, err := ask(ctx, s.with.Topic)
	if err == nil {
		err = all.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("the brokers cannot be asked for offsets of %s: %w", s.with.Topic, err)
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

// begin makes the first cursor, and stores it.
func (s *source) begin(ctx context.Context, at time.Time) error {
	id, n, err := s.partitions(ctx)
	if err != nil {
		return err
	}
	if at.IsZero() && s.feed.Start.From != "beginning" {
		at = s.feed.Start.Since
	}
	ask := s.admin.ListStartOffsets
	if !at.IsZero() {
		ask = func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
			return s.admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topics...)
		}
	}
	offsets, err := s.list(ctx, ask, n)
	if err != nil {
		return err
	}
	s.at = &cursor{ID: id}
	for _, o := range offsets {
		s.at.Next = append(s.at.Next, [2]int64{o, -1})
	}
	return s.give(nil, 0, "")
}

// give gives events up to the cursor.
func (s *source) give(events []feed.Event, lost int64, why string) error {
	raw, err := s.at.write()
	if err != nil {
		return &feed.Error{Code: feed.Permanent, Err: err}
	}
	return s.feed.Give(&feed.Line{Events: events, Cursor: raw, Lost: lost, Why: why, Lag: s.lag()})
}

// run reads from the cursor on.
func (s *source) run(ctx context.Context) error {
	for looked := time.Now(); ctx.Err() == nil; {
		next := lookEvery
		err := s.look(ctx)
		var final *feed.Error
		switch {
		case err == nil:
			looked = time.Now()
		case errors.As(err, &final) || s.reads == 0 || time.Since(looked) > outageMax:
			return err
		default: // a broker starts again; the client reads on by itself
			next = time.Second
		}
		if err := s.read(ctx, time.Now().Add(next)); err != nil {
			return err
		}
	}
	return nil
}

// look compares the topic with the cursor. It counts the records that are gone, adds new partitions, and says
// how many records wait.
func (s *source) look(ctx context.Context) error {
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
		return s.recreated(id, starts)
	}
	for p := len(s.at.Next); p < n; p++ { // a partition that is new holds nothing from before
		s.at.Next = append(s.at.Next, [2]int64{starts[p], -1})
	}
	s.ends = ends
	if err := s.gaps(starts); err != nil {
		return err
	}
	if s.reads < n {
		add := map[int32]kgo.Offset{}
		for ; s.reads < n; s.reads++ {
			add[int32(s.reads)] = s.offset(s.reads)
		}
		s.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{s.with.Topic: add})
	}
	return s.feed.Give(&feed.Line{Lag: s.lag()})
}

// lag counts the records up to the ends of the last look that were not given; nil: there was no look.
func (s *source) lag() *int64 {
	if len(s.ends) < len(s.at.Next) {
		return nil
	}
	var n int64
	for p := range s.at.Next {
		n += max(0, s.ends[p]-s.at.Next[p][0])
	}
	return &n
}

// offset is where a partition is read on.
func (s *source) offset(p int) kgo.Offset {
	next := s.at.Next[p]
	return kgo.NewOffset().At(next[0]).WithEpoch(int32(next[1]))
}

// gaps moves the cursor over records that are gone, and gives their number.
func (s *source) gaps(starts []int64) error {
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
			lost++ // how many there were is not known
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
	return s.give(nil, lost, "topic "+s.with.Topic+": "+strings.Join(why, "; "))
}

// move makes a partition be read from an offset on.
func (s *source) move(p int, to int64) {
	if to != s.at.Next[p][0] {
		s.at.Next[p] = [2]int64{to, -1}
	}
	if p < s.reads {
		s.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{s.with.Topic: {int32(p): {Epoch: -1, Offset: to}}})
	}
}

// recreated begins at the beginning of a topic that was deleted and created again.
func (s *source) recreated(id string, starts []int64) error {
	s.at = &cursor{ID: id}
	for _, o := range starts {
		s.at.Next = append(s.at.Next, [2]int64{o, -1})
	}
	if err := s.give(nil, 1, "topic "+s.with.Topic+" was deleted and created again; how many records of the old one were not read is not known"); err != nil {
		return err
	}
	return &feed.Error{Code: feed.Away, Err: errors.New("the topic was created again; it is read from its beginning")}
}

// read gives records until a time.
func (s *source) read(ctx context.Context, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for ctx.Err() == nil {
		got := s.client.PollRecords(ctx, s.feed.Start.Events)
		if err := s.records(got); err != nil {
			return err
		}
		for _, e := range got.Errors() {
			if err := s.failed(ctx, e); err != nil {
				return err
			}
			if ctx.Err() == nil {
				return nil // look at the partitions
			}
		}
	}
	return nil
}

// failed decides about an error of a partition. A nil error means that a look at the partitions finds what it
// is about.
func (s *source) failed(ctx context.Context, e kgo.FetchError) error {
	var lost *kgo.ErrDataLoss
	switch {
	case ctx.Err() != nil || errors.Is(e.Err, context.DeadlineExceeded) || errors.Is(e.Err, context.Canceled):
		return nil
	case errors.As(e.Err, &lost) && int(e.Partition) < len(s.at.Next):
		s.move(int(e.Partition), lost.ResetTo)
		return s.give(nil, 1, fmt.Sprintf("topic %s: a broker has cut partition %d at offset %d, and %d was read; how many records are lost is not known", s.with.Topic, e.Partition, lost.ResetTo, lost.ConsumedTo-1))
	case errors.Is(e.Err, kerr.OffsetOutOfRange):
		s.failing[int(e.Partition)] = true
		return pause(ctx)
	}
	return fmt.Errorf("topic %s, partition %d: %w", s.with.Topic, e.Partition, e.Err)
}

// pause waits for a second, so that a broker whose answers contradict each other is not asked all the time.
func pause(ctx context.Context) error {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return nil
}

// records gives records, in lines within the bounds.
func (s *source) records(got kgo.Fetches) error {
	var events []feed.Event
	size, moved := 0, false
	flush := func() error {
		if !moved {
			return nil
		}
		err := s.give(events, 0, "")
		events, size, moved = nil, 0, false
		return err
	}
	for it := got.RecordIter(); !it.Done(); {
		r := it.Next()
		if int(r.Partition) >= len(s.at.Next) || r.Offset < s.at.Next[r.Partition][0] {
			continue // of before a gap
		}
		if !r.Attrs.IsControl() {
			e := eventOf(r, s.at.ID, s.with.Value)
			if size += e.Size(); len(events) > 0 && size > feed.BytesMax {
				if err := flush(); err != nil {
					return err
				}
				size = e.Size()
			}
			events = append(events, e)
		}
		s.at.Next[r.Partition], moved = [2]int64{r.Offset + 1, int64(r.LeaderEpoch)}, true
	}
	return flush()
}
