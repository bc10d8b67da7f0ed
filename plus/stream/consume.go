package stream

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"skein.dev/skein/internal/feed"
)

// Queue is a queue that deletes a message when it is acknowledged. H is the type by which the queue
// identifies a message.
type Queue[H any] interface {
	// Receive waits for messages, and returns up to most of them. If ctx ends first, it returns none.
	Receive(ctx context.Context, most int) ([]Message[H], error)
	// Acknowledge tells the queue that messages are stored. It may be called while Receive runs.
	Acknowledge(ctx context.Context, all []Message[H]) error
	// Waiting returns the number of waiting messages, or nil if it is unknown. It is never called during
	// Receive.
	Waiting(ctx context.Context) (*int64, error)
}

// Message is a message of a queue.
type Message[H any] struct {
	Handle H
	// ID is the same each time the message comes, and differs from that of any other message. It is "" if the
	// message has no id.
	ID string
	// Event is the event of the message, without a key.
	Event feed.Event
}

// OpenMax bounds the messages that were given but not yet acknowledged. It must not be less than a batch of
// the node (feed.EventsMax), and a cursor must have room for a hash of each message.
const OpenMax = 1000

const (
	// aliveEvery is the interval at which a source without messages reports that it is alive.
	aliveEvery = 10 * time.Second
	// acknowledgeMax bounds an acknowledgement.
	acknowledgeMax = 10 * time.Second
	// inheritMax bounds how long messages that an earlier process has given may still come again.
	inheritMax = time.Hour
)

// taken is the stored position of a source in its queue.
type taken struct {
	Series string `json:"series"` // distinguishes this position from later ones that also begin at 0
	Taken  int64  `json:"taken"`  // number of messages taken
	// Open holds 8 bytes of a hash of each message that may not be acknowledged yet. If such a message comes
	// again, it is acknowledged but starts nothing.
	Open []byte `json:"open,omitempty"`
}

// Consume takes messages until ctx ends, and acknowledges them after the node has stored them. It returns nil
// when ctx has ended, or an error if it cannot continue.
func Consume[H any](ctx context.Context, f *feed.Feed, q Queue[H]) error {
	c := &consumer[H]{queue: q, feed: f, room: make(chan struct{}, 1)}
	c.lines = &Lines{feed: f, cursor: c.cursor, lag: func() *int64 { return c.lag }}
	if err := c.restore(); err != nil {
		return err
	}
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() { stop(c.take(work)) }() // take may still be blocked by the node when ctx ends
	err := c.acknowledge(work)
	if err == nil {
		err = context.Cause(work)
	}
	return ended(ctx, err)
}

// consumer takes messages from one queue.
type consumer[H any] struct {
	queue Queue[H]
	feed  *feed.Feed
	lines *Lines // used only by take
	lag   *int64 // used only by take

	series string
	taken  int64 // used only by take
	// inherited holds hashes of the messages that an earlier process has given. It is used only by take.
	inherited []uint64
	until     time.Time // time at which inherited is dropped

	mu   sync.Mutex // protects open
	open []lot[H]   // in the order in which they were given
	room chan struct{}
}

// lot holds the messages of one line.
type lot[H any] struct {
	line int64 // number of the line that has the last of them
	all  []Message[H]
}

func (c *consumer[H]) restore() error {
	var at taken
	raw := c.feed.Start.Cursor
	if _, moved := instant(raw); len(raw) > 0 && !moved {
		if json.Unmarshal(raw, &at) != nil || at.Series == "" || at.Taken < 0 || len(at.Open)%8 != 0 {
			return &feed.Error{Code: feed.Permanent, Err: errCursor}
		}
	}
	if c.series, c.taken = at.Series, at.Taken; c.series == "" {
		c.series = strings.ToLower(rand.Text()[:10])
	}
	for b := at.Open; len(b) > 0; b = b[8:] {
		c.inherited = append(c.inherited, binary.BigEndian.Uint64(b))
	}
	c.until = time.Now().Add(inheritMax)
	return nil
}

func hashOf(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(sum[:])
}

// cursor returns the position after all taken messages.
func (c *consumer[H]) cursor() any {
	at := taken{Series: c.series, Taken: c.taken}
	add := func(h uint64) {
		if len(at.Open) < 8*OpenMax {
			at.Open = binary.BigEndian.AppendUint64(at.Open, h)
		}
	}
	c.mu.Lock()
	for i := range c.open {
		for j := range c.open[i].all {
			if id := c.open[i].all[j].ID; id != "" {
				add(hashOf(id))
			}
		}
	}
	c.mu.Unlock()
	for _, h := range c.inherited {
		add(h)
	}
	return at
}

// take receives messages and gives them to the node.
func (c *consumer[H]) take(ctx context.Context) error {
	var looked time.Time
	for ctx.Err() == nil {
		if time.Since(looked) >= aliveEvery {
			lag, err := c.queue.Waiting(ctx)
			if err != nil {
				return err
			}
			c.lag, looked = lag, time.Now()
			if err := c.lines.alive(); err != nil {
				return err
			}
			if time.Now().After(c.until) {
				c.inherited = nil
			}
		}
		most := min(OpenMax-c.unacknowledged(), c.feed.Start.Events)
		if most <= 0 {
			c.wait(ctx, looked)
			continue
		}
		all, err := c.receive(ctx, most, looked)
		if err != nil {
			return err
		}
		if err := c.give(ctx, all); err != nil {
			return err
		}
	}
	return nil
}

func (c *consumer[H]) receive(ctx context.Context, most int, looked time.Time) ([]Message[H], error) {
	ctx, cancel := context.WithDeadline(ctx, looked.Add(aliveEvery))
	defer cancel()
	return c.queue.Receive(ctx, most)
}

// wait waits until messages have been acknowledged, and at most until the next sign of life is due.
func (c *consumer[H]) wait(ctx context.Context, looked time.Time) {
	timer := time.NewTimer(time.Until(looked.Add(aliveEvery)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-c.room:
	}
}

func (c *consumer[H]) unacknowledged() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.open {
		n += len(c.open[i].all)
	}
	return n
}

// give gives messages to the node. It only acknowledges messages that an earlier process has given.
func (c *consumer[H]) give(ctx context.Context, all []Message[H]) error {
	var again []Message[H]
	for i := range all {
		m := &all[i]
		switch {
		case c.stored(m.ID):
			again = append(again, *m)
			continue
		case c.joins(*m):
			continue
		}
		m.Event.Key = c.key(m.ID)
		if err := c.lines.Add(m.Event); err != nil {
			return err
		}
		c.taken++
		c.lines.Moved()
		// The next line has this message, because Add has sent everything before it if it did not fit.
		c.keep(*m, c.lines.given+1)
	}
	if err := c.lines.Flush(); err != nil {
		return err
	}
	if len(again) == 0 {
		return nil
	}
	return c.queue.Acknowledge(ctx, again)
}

// stored reports whether an earlier process has given a message.
func (c *consumer[H]) stored(id string) bool {
	if id == "" || len(c.inherited) == 0 {
		return false
	}
	h := hashOf(id)
	return slices.Contains(c.inherited, h)
}

// joins handles a message that has come again while its first delivery is unacknowledged. It adds the message
// to the first one, so that both are acknowledged together. It returns false if there is no first one.
func (c *consumer[H]) joins(m Message[H]) bool {
	if m.ID == "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.open {
		for j := range c.open[i].all {
			if c.open[i].all[j].ID == m.ID {
				c.open[i].all = append(c.open[i].all, m)
				return true
			}
		}
	}
	return false
}

// keyMax bounds an ID that is used in a key unchanged.
const keyMax = 200

// key returns the key of an event. A message without an ID gets a new number, so it fires each time it comes.
func (c *consumer[H]) key(id string) string {
	switch {
	case id == "":
		return fmt.Sprintf("%s.%d", c.series, c.taken+1)
	case len(id) > keyMax || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }):
		sum := sha256.Sum256([]byte(id))
		return fmt.Sprintf("message %x", sum[:16])
	}
	return "message " + id
}

// keep remembers a message until its line is stored.
func (c *consumer[H]) keep(m Message[H], line int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.open); n > 0 && c.open[n-1].line == line {
		c.open[n-1].all = append(c.open[n-1].all, m)
		return
	}
	c.open = append(c.open, lot[H]{line: line, all: []Message[H]{m}})
}

// acknowledge acknowledges stored messages until ctx ends.
func (c *consumer[H]) acknowledge(ctx context.Context) error {
	for {
		select {
		case n := <-c.feed.Stored():
			if err := c.settle(ctx, n); err != nil {
				return fmt.Errorf("acknowledge messages: %w", err)
			}
		case <-ctx.Done():
			return c.last(ctx)
		}
	}
}

// last acknowledges the messages that were stored when the source ended.
func (c *consumer[H]) last(ctx context.Context) error {
	select {
	case n := <-c.feed.Stored():
		return c.settle(ctx, n)
	default:
		return nil
	}
}

// settle acknowledges the messages of the first lines.
func (c *consumer[H]) settle(ctx context.Context, lines int64) error {
	var all []Message[H]
	c.mu.Lock()
	n := 0
	for ; n < len(c.open) && c.open[n].line <= lines; n++ {
		all = append(all, c.open[n].all...)
	}
	c.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	// An acknowledgement continues after the end of ctx.
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), acknowledgeMax)
	defer cancel()
	if err := c.queue.Acknowledge(own, all); err != nil {
		return err
	}
	c.mu.Lock() // meanwhile, take may only have appended
	c.open = append([]lot[H](nil), c.open[n:]...)
	c.mu.Unlock()
	select {
	case c.room <- struct{}{}:
	default:
	}
	return nil
}

// Identified returns a message whose ID is the text at a path in the event; see Find. If path is "", the
// message has no ID. If there is no such text, the event cannot be used.
func Identified[H any](handle H, e feed.Event, path string) Message[H] {
	m := Message[H]{Handle: handle, Event: e}
	if path == "" || e.Value == nil {
		return m
	}
	id, err := Find(e.Value, path)
	if err != nil {
		m.Event.Value, m.Event.Reason = nil, e.Reason+" cannot be used: "+err.Error()
	}
	m.ID = id
	return m
}

// Find returns the text at a path, such as event.value.id, in the value of an event. The key id of a trigger
// names such a path.
func Find(event json.RawMessage, path string) (string, error) {
	var at any
	d := json.NewDecoder(strings.NewReader(string(event)))
	d.UseNumber() // keeps all digits of large numbers
	if err := d.Decode(&at); err != nil {
		return "", errors.New("the message is not JSON")
	}
	names := strings.Split(path, ".")
	for _, name := range names[1:] {
		fields, ok := at.(map[string]any)
		if !ok {
			return "", fmt.Errorf("the message has no %s, which the key id names", path)
		}
		at = fields[name]
	}
	switch is := at.(type) {
	case string:
		if is != "" {
			return is, nil
		}
	case json.Number:
		return is.String(), nil
	}
	return "", fmt.Errorf("%s is neither a text nor a number, so it cannot identify the message", path)
}
