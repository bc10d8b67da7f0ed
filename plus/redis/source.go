// Package redis reads Redis streams. It uses no consumer group. The row of the trigger holds the id of the
// last entry. It changes in the same transaction that starts the runs.
package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	client "github.com/redis/go-redis/v9"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/feed"
	"skein.dev/skein/plus/stream"
)

const (
	// callMax bounds a request to the server.
	callMax = 5 * time.Second
	// readWait bounds how long a request waits at the server for entries.
	readWait = 2 * time.Second
	// answerMax is the size of an answer in bytes above which the next request asks for half as many entries.
	answerMax = 4 << 20
)

// connect makes a client. It asks the server whether it belongs to a cluster. In a cluster, the client finds
// the server that has the stream. If the server does not answer this question, the client uses only this
// server.
func connect(ctx context.Context, start *feed.Start) (client.UniversalClient, error) {
	var c broker.Redis
	if err := stream.Read(start, &c, nil); err != nil {
		return nil, err
	}
	_, dial, _, err := stream.Dialers(start, &c.Security)
	if err != nil {
		return nil, err
	}
	database, _ := strconv.Atoi(c.Database) // Check has verified the number
	opts := client.UniversalOptions{Addrs: []string{c.Address(broker.RedisPort, broker.RedisPort)}, Dialer: dial, ClientName: "skein", Username: c.User, Password: stream.Plain(c.Password),
		DB: database, DialTimeout: callMax, ReadTimeout: callMax, WriteTimeout: callMax, PoolSize: 2, MaxRetries: -1, Protocol: 2, DisableIdentity: true}
	one := client.NewClient(opts.Simple())
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	if text, err := one.Info(ctx, "server").Result(); err != nil || !strings.Contains(text, "redis_mode:cluster") {
		return one, nil // the next request reports an error that lasts
	}
	return client.NewClusterClient(opts.Cluster()), one.Close()
}

// Test signs in and reads the version of the server.
func Test(ctx context.Context, start *feed.Start) (found string, err error) {
	rdb, err := connect(ctx, start)
	if err != nil {
		return "", err
	}
	defer rdb.Close()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return "", err
	}
	text, err := rdb.Info(ctx, "server").Result()
	if err != nil { // the user may lack the right to read it
		return "a server that answers PING", nil
	}
	_, version, _ := strings.Cut(text, "redis_version:")
	version, _, _ = strings.Cut(version, "\r")
	if _, several := rdb.(*client.ClusterClient); several {
		return "a cluster of Redis " + version, nil
	}
	return "a server of Redis " + version, nil
}

// Main runs the source. It returns nil when ctx has ended, or an error if the source cannot continue.
func Main(ctx context.Context, f *feed.Feed) error {
	var with broker.RedisInput
	if err := stream.Read(&f.Start, &broker.Redis{}, &with); err != nil {
		return err
	}
	rdb, err := connect(ctx, &f.Start)
	if err != nil {
		return err
	}
	defer rdb.Close()
	return stream.Follow(ctx, f, &source{with: &with, client: rdb, count: 10})
}

// cursor is the stored position in a stream.
type cursor struct {
	Last entryID `json:"last"` // id of the last entry that was read
	// Read is the number of entries that the stream has got up to Last, or -1 if that is not known yet.
	Read int64 `json:"read"`
}

// source reads one stream.
type source struct {
	with   *broker.RedisInput
	client client.UniversalClient
	at     cursor
	added  int64 // number of entries that the stream had got at the last look
	count  int64 // number of entries that the next request asks for
}

// Restore implements stream.Log.
func (s *source) Restore(raw json.RawMessage) error {
	var at struct {
		Last *entryID `json:"last"`
		Read int64    `json:"read"`
	}
	if err := json.Unmarshal(raw, &at); err != nil {
		return err
	}
	if at.Last == nil || at.Read < -1 {
		return errors.New("the stored position is not a position in a stream")
	}
	s.at = cursor{Last: *at.Last, Read: at.Read}
	return nil
}

// Cursor implements stream.Log.
func (s *source) Cursor() any { return &s.at }

// Lag implements stream.Log.
func (s *source) Lag() *int64 {
	if s.at.Read < 0 {
		return nil
	}
	n := max(0, s.added-s.at.Read)
	return &n
}

// state is what the server reports about a stream.
type state struct {
	last, deleted  entryID // id of the last entry, and highest id of a deleted entry
	first          entryID // id of the first entry; zero if there is no entry
	added, removed int64
}

func (s *source) state(ctx context.Context) (is state, err error) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	info, err := s.client.XInfoStream(ctx, s.with.Stream).Result()
	switch {
	case err != nil && strings.Contains(err.Error(), "no such key"):
		return is, fmt.Errorf("there is no stream %s", s.with.Stream)
	case err != nil:
		return is, fmt.Errorf("stream %s: %w", s.with.Stream, err)
	case info.MaxDeletedEntryID == "":
		return is, stream.Permanent("the server does not count the entries of streams; a source needs Redis 7.0 or later")
	}
	is.added, is.removed = info.EntriesAdded, info.EntriesAdded-info.Length
	for _, part := range []struct {
		text string
		into *entryID
	}{{info.LastGeneratedID, &is.last}, {info.MaxDeletedEntryID, &is.deleted}, {info.FirstEntry.ID, &is.first}} {
		if part.text == "" {
			continue
		}
		if *part.into, err = parseID(part.text); err != nil {
			return is, fmt.Errorf("stream %s: the server says: %w", s.with.Stream, err)
		}
	}
	return is, nil
}

// Begin implements stream.Log.
func (s *source) Begin(ctx context.Context, since time.Time) error {
	is, err := s.state(ctx)
	if err != nil {
		return err
	}
	s.at = cursor{Read: max(0, is.removed)}
	if !since.IsZero() {
		s.at = cursor{Last: before(uint64(max(0, since.UnixMilli()))), Read: -1}
	}
	return nil
}

// Look implements stream.Log.
func (s *source) Look(ctx context.Context, lines *stream.Lines) error {
	is, err := s.state(ctx)
	if err != nil {
		return err
	}
	s.added = is.added
	switch {
	case is.last.less(s.at.Last) && s.at.Read >= 0 || s.at.Read > is.added:
		s.at = cursor{Read: max(0, is.removed)}
		return lines.Lost(1, "stream "+s.with.Stream+" was deleted and created again, or the server has lost entries; how many entries of before were not read is not known")
	case s.at.Read >= 0 && is.removed > s.at.Read:
		lost := is.removed - s.at.Read
		s.at.Read = is.removed
		return lines.Lost(lost, fmt.Sprintf("stream %s: %d entries were deleted before they were read", s.with.Stream, lost))
	case s.at.Read < 0 && s.at.Last.less(is.deleted) && (is.first == entryID{} || is.deleted.less(is.first)):
		s.at.Last = is.deleted
		return lines.Lost(1, "stream "+s.with.Stream+": entries were deleted before they were read; their number is not known")
	// At the end of the stream, all entries were read.
	case s.at.Last == is.last && s.at.Read != is.added, s.at.Read < 0 && is.last.less(s.at.Last):
		s.at.Read = is.added
		lines.Moved()
	}
	return nil
}

// Read implements stream.Log.
func (s *source) Read(ctx context.Context, lines *stream.Lines) error {
	call, cancel := context.WithTimeout(ctx, readWait+callMax)
	defer cancel()
	got, err := s.client.XRead(call, &client.XReadArgs{Streams: []string{s.with.Stream, s.at.Last.String()}, Count: s.count, Block: readWait}).Result()
	switch {
	case errors.Is(err, client.Nil) || ctx.Err() != nil:
		return nil
	case err != nil: // the next look finds the cause, and whether the source must end
		return stream.Pause(ctx)
	}
	size := 0
	for _, one := range got {
		for i := range one.Messages {
			m := &one.Messages[i]
			id, err := parseID(m.ID)
			if err != nil || !s.at.Last.less(id) {
				return fmt.Errorf("stream %s: the server gave entry %.40q after %s", s.with.Stream, m.ID, s.at.Last)
			}
			e := s.event(m, id)
			size += e.Size()
			if err := lines.Add(e); err != nil {
				return err
			}
			if s.at.Last = id; s.at.Read >= 0 {
				s.at.Read++
			}
			lines.Moved()
		}
	}
	switch {
	case size > answerMax:
		s.count = max(1, s.count/2)
	case size < answerMax/4:
		s.count = min(feed.EventsMax, 2*s.count)
	}
	return nil
}

// event converts an entry to an event.
func (s *source) event(m *client.XMessage, id entryID) feed.Event {
	fields := map[string]string{}
	for name, v := range m.Values {
		text, _ := v.(string)
		fields[stream.Name(name)] = stream.Text([]byte(text))
	}
	value := json.RawMessage("null")
	var err error
	if name := s.with.Field; name != "" {
		if text, ok := m.Values[name].(string); ok {
			value, err = stream.Content([]byte(text), s.with.Value)
			delete(fields, name)
		} else {
			err = fmt.Errorf("the entry has no field %s", name)
		}
	}
	at := stream.Time(time.UnixMilli(int64(min(id.Time, 1<<62))))
	place := s.with.Stream + " " + m.ID
	return stream.Event(place, "entry "+place, at, struct {
		Stream    string            `json:"stream"`
		ID        string            `json:"id"`
		Timestamp time.Time         `json:"timestamp"`
		Fields    map[string]string `json:"fields"`
		Value     json.RawMessage   `json:"value"`
	}{s.with.Stream, m.ID, at, fields, value}, err)
}

// entryID is the id of an entry: a time in milliseconds, and the number of the entry within that millisecond.
type entryID struct{ Time, Seq uint64 }

func parseID(text string) (id entryID, err error) {
	ms, seq, ok := strings.Cut(text, "-")
	if id.Time, err = strconv.ParseUint(ms, 10, 64); err == nil && ok {
		id.Seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil || !ok {
		return entryID{}, fmt.Errorf("%.40q is not the ID of an entry", text)
	}
	return id, nil
}

// before returns the highest id that is before a time.
func before(ms uint64) entryID {
	if ms == 0 {
		return entryID{}
	}
	return entryID{ms - 1, 1<<64 - 1}
}

func (id entryID) less(than entryID) bool {
	return id.Time < than.Time || id.Time == than.Time && id.Seq < than.Seq
}

func (id entryID) String() string {
	return strconv.FormatUint(id.Time, 10) + "-" + strconv.FormatUint(id.Seq, 10)
}

// MarshalText implements encoding.TextMarshaler.
func (id entryID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *entryID) UnmarshalText(text []byte) (err error) {
	*id, err = parseID(string(text))
	return err
}
