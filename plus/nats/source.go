package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/feed"
	"skein.dev/skein/plus/stream"
)

const (
	fetchWait = 5 * time.Second // bounds how long a request waits for messages
	fetchMax  = 500             // bounds the messages of a request
	// bytesMax bounds the bytes of a request's messages.
	bytesMax = 8 << 20
	// idleMax is the time after which the server deletes the consumer of a source that requests nothing.
	idleMax = time.Minute
)

// cursor is the stored position in a stream.
type cursor struct {
	// Created is the time of the stream's creation. A stream that is deleted and created again has another
	// time.
	Created time.Time `json:"created"`
	Next    uint64    `json:"next"` // sequence number of the next message
}

// Main runs the source. It returns nil when ctx has ended, or an error if the source cannot continue.
func Main(ctx context.Context, f *feed.Feed) error {
	var with broker.NATSInput
	if err := stream.Read(&f.Start, &broker.NATS{}, &with); err != nil {
		return err
	}
	s := &source{with: &with, again: make(chan struct{}, 1)}
	var err error
	s.conn, s.js, err = connect(&f.Start, func() {
		select {
		case s.again <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer s.conn.Close()
	return stream.Follow(ctx, f, s)
}

// source reads one stream.
type source struct {
	with *broker.NATSInput
	conn *client.Conn
	js   jetstream.JetStream
	// again receives a value after each reconnection, when answers to a request may have been lost. Its
	// capacity is 1.
	again chan struct{}

	at   cursor
	last uint64 // last sequence number of the stream at the last look
	lag  *int64

	// reader is a JetStream consumer without acknowledgements. If it is nil, the next Read makes one.
	reader   jetstream.Consumer
	received uint64                 // number of messages that the reader has received
	batch    jetstream.MessageBatch // current request; nil if there is none
	got      int                    // number of messages that the current request has received
	large    bool                   // the next request takes a single message of any size
}

// Restore implements stream.Log.
func (s *source) Restore(raw json.RawMessage) error {
	if err := json.Unmarshal(raw, &s.at); err != nil {
		return err
	}
	if s.at.Created.IsZero() || s.at.Next == 0 {
		return errors.New("the stored position is not a position in a stream")
	}
	return nil
}

// Cursor implements stream.Log.
func (s *source) Cursor() any { return &s.at }

// Lag implements stream.Log.
func (s *source) Lag() *int64 { return s.lag }

// away returns the error of a request. If the connection is lost, it includes the cause.
func (s *source) away(err error) error {
	if last := s.conn.LastError(); !s.conn.IsConnected() && last != nil {
		return fmt.Errorf("the servers do not answer: %w", last)
	}
	return fmt.Errorf("stream %s: %w", s.with.Stream, err)
}

// info returns the state of the stream.
func (s *source) info(ctx context.Context) (jetstream.Stream, *jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	is, err := s.js.Stream(ctx, s.with.Stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, nil, fmt.Errorf("there is no stream %s", s.with.Stream)
	case errors.Is(err, client.ErrNoResponders):
		return nil, nil, errors.New("JetStream is not enabled on the server, or not for this account")
	case err != nil:
		return nil, nil, s.away(err)
	}
	info := is.CachedInfo()
	if r := info.Config.Retention; r != jetstream.LimitsPolicy {
		return nil, nil, stream.Permanent("stream %s has the retention %s, so its messages vanish when others acknowledge them; a source reads streams with the retention limits", s.with.Stream, r)
	}
	return is, info, nil
}

// Begin implements stream.Log.
func (s *source) Begin(ctx context.Context, since time.Time) error {
	is, info, err := s.info(ctx)
	if err != nil {
		return err
	}
	s.at = cursor{Created: info.Created, Next: max(info.State.FirstSeq, 1)}
	if since.IsZero() {
		return nil
	}
	reader, err := s.consumer(ctx, is, func(c *jetstream.ConsumerConfig) {
		c.DeliverPolicy, c.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	})
	if err != nil {
		return err
	}
	batch, err := reader.FetchNoWait(1)
	if err != nil {
		return s.away(err)
	}
	s.at.Next = info.State.LastSeq + 1 // a message that arrives meanwhile is read
	for m := range batch.Messages() {
		if meta, err := m.Metadata(); err == nil {
			s.at.Next = max(meta.Sequence.Stream, 1)
		}
	}
	if err := batch.Error(); err != nil {
		return s.away(err)
	}
	return nil
}

// consumer makes a reader of a stream. The server deletes the reader by itself when it is idle.
func (s *source) consumer(ctx context.Context, is jetstream.Stream, where func(*jetstream.ConsumerConfig)) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	cfg := jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, FilterSubject: s.with.Subject, InactiveThreshold: idleMax, MemoryStorage: true, Replicas: 1}
	where(&cfg)
	reader, err := is.CreateConsumer(ctx, cfg)
	if err != nil {
		return nil, s.away(err)
	}
	return reader, nil
}

// Look implements stream.Log.
func (s *source) Look(ctx context.Context, lines *stream.Lines) error {
	is, info, err := s.info(ctx)
	if err != nil {
		return err
	}
	first, last := max(info.State.FirstSeq, 1), info.State.LastSeq
	s.last = last
	switch next := s.at.Next; {
	case !info.Created.Equal(s.at.Created):
		s.at = cursor{Created: info.Created, Next: first}
		if err := lines.Lost(1, "stream "+s.with.Stream+" was deleted and created again; how many messages of the old one were not read is not known"); err != nil {
			return err
		}
		return &feed.Error{Code: feed.Away, Err: errors.New("the stream was created again; it is read from its beginning")}
	case next < first:
		err = s.lost(lines, first, int64(first-next), fmt.Sprintf("it begins at message %d, and %d was the next to read", first, next))
	case next > last+1:
		err = s.lost(lines, last+1, 1, fmt.Sprintf("it ends at message %d, and %d was read, so the server has lost messages", last, next-1))
	}
	if err != nil {
		return err
	}
	if s.reader == nil {
		return s.open(ctx, is)
	}
	return nil
}

// lost moves the position past lost messages.
func (s *source) lost(lines *stream.Lines, to uint64, n int64, why string) error {
	s.at.Next = to
	s.forget()
	return lines.Lost(n, "stream "+s.with.Stream+": "+why)
}

// forget makes the next Read open a new reader.
func (s *source) forget() { s.reader, s.batch = nil, nil }

func (s *source) open(ctx context.Context, is jetstream.Stream) (err error) {
	s.reader, err = s.consumer(ctx, is, func(c *jetstream.ConsumerConfig) {
		c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, s.at.Next
	})
	s.received, s.batch = 0, nil
	return err
}

// Read implements stream.Log.
func (s *source) Read(ctx context.Context, lines *stream.Lines) error {
	if s.reader == nil {
		return stream.Pause(ctx)
	}
	if s.batch == nil {
		if err := s.request(); err != nil {
			s.forget()
			return stream.Pause(ctx)
		}
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.again:
		s.forget()
		return stream.ErrLook
	case m, ok := <-s.batch.Messages():
		for ok {
			whole, err := s.add(m, lines)
			switch {
			case err != nil:
				return err
			case !whole:
				s.forget()
				return stream.Pause(ctx)
			}
			select {
			case m, ok = <-s.batch.Messages():
			default: // no more messages are here now
				return nil
			}
		}
	}
	return s.ended(ctx, lines)
}

// request requests the next messages.
func (s *source) request() (err error) {
	s.got = 0
	if s.large {
		s.batch, err = s.reader.Fetch(1, jetstream.FetchMaxWait(fetchWait))
		return err
	}
	s.batch, err = s.reader.Fetch(fetchMax, jetstream.FetchMaxBytes(bytesMax), jetstream.FetchMaxWait(fetchWait))
	return err
}

// ended handles the end of a request. If the request brought no messages, it asks the server which messages
// the reader has got, and which still wait.
func (s *source) ended(ctx context.Context, lines *stream.Lines) error {
	err := s.batch.Error()
	s.batch = nil
	if err != nil {
		s.forget()
		return stream.Pause(ctx)
	}
	if s.got > 0 {
		s.large = false
		return nil
	}
	last := s.last // from a look before the query below
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	info, err := s.reader.Info(ctx)
	switch {
	// The server has deleted the reader, or messages were lost on the way.
	case err != nil || info.Delivered.Consumer != s.received:
		s.forget()
		return stream.Pause(ctx)
	case info.NumPending > 0: // perhaps a message that is larger than bytesMax
		s.large = true
	case last >= s.at.Next: // the remaining messages are deleted, or have other subjects
		s.at.Next = last + 1
		lines.Moved()
	}
	s.waits(info.NumPending)
	return nil
}

func (s *source) waits(n uint64) {
	lag := int64(min(n, 1<<53))
	s.lag = &lag
}

// add adds a message. It returns false if a message before this one was lost on the way.
func (s *source) add(m jetstream.Msg, lines *stream.Lines) (whole bool, err error) {
	meta, err := m.Metadata()
	if err != nil {
		return false, nil
	}
	s.got++
	s.received++
	if meta.Sequence.Consumer != s.received {
		return false, nil
	}
	if meta.Sequence.Stream < s.at.Next {
		return true, nil
	}
	if err := lines.Add(eventOf(m, meta, s.with.Value)); err != nil {
		return false, err
	}
	s.at.Next = meta.Sequence.Stream + 1
	s.waits(meta.NumPending)
	lines.Moved()
	return true, nil
}

// eventOf converts a message to an event.
func eventOf(m jetstream.Msg, meta *jetstream.MsgMetadata, form string) feed.Event {
	value, err := stream.Content(m.Data(), form)
	headers := map[string][]string{}
	for name, all := range m.Headers() {
		for _, v := range all {
			headers[stream.Name(name)] = append(headers[stream.Name(name)], stream.Text([]byte(v)))
		}
	}
	at := stream.Time(meta.Timestamp)
	place := fmt.Sprintf("%s %d", meta.Stream, meta.Sequence.Stream)
	return stream.Event(fmt.Sprintf("%s %d", place, meta.Timestamp.UnixNano()), "message "+place, at, struct {
		Stream    string              `json:"stream"`
		Subject   string              `json:"subject"`
		Sequence  uint64              `json:"sequence"`
		Timestamp time.Time           `json:"timestamp"`
		Headers   map[string][]string `json:"headers"`
		Value     json.RawMessage     `json:"value"`
	}{meta.Stream, m.Subject(), meta.Sequence.Stream, at, headers, value}, err)
}
