package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/feed"
	"skein.dev/skein/plus/stream"
)

// store reports to the source that a number of lines is stored.
func (k *keeper) store(lines int64) {
	k.t.Helper()
	if _, err := fmt.Fprintf(k.in, "{\"taken\":%d}\n", lines); err != nil {
		k.t.Fatal(err)
	}
}

// box is a queue of texts. When the box is opened again, unacknowledged texts come again.
type box struct {
	mu       sync.Mutex
	all      []string
	next     int
	acked    map[string]int
	refusing error
}

// life is the connection of one process to a box.
type life struct {
	*box
	over <-chan struct{}
}

func (b *life) Receive(ctx context.Context, most int) (all []stream.Message[string], err error) {
	for {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-b.over:
			return nil, nil
		case <-time.After(time.Millisecond):
		}
		b.mu.Lock()
		for ; b.next < len(b.all) && len(all) < most; b.next++ {
			text := b.all[b.next]
			m := stream.Message[string]{Handle: text, Event: feed.Event{Value: json.RawMessage(`{"value":{"id":"` + text + `"}}`)}}
			if !strings.HasPrefix(text, "-") {
				m.ID, err = stream.Find(m.Event.Value, "event.value.id")
			}
			all = append(all, m)
		}
		b.mu.Unlock()
		if len(all) > 0 || err != nil {
			return all, err
		}
	}
}

func (b *box) Acknowledge(_ context.Context, all []stream.Message[string]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refusing != nil {
		return b.refusing
	}
	for _, m := range all {
		b.acked[m.Handle]++
	}
	return nil
}

func (b *box) Waiting(context.Context) (*int64, error) { return nil, nil }

// put adds texts.
func (b *box) put(all ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, all...)
}

func (b *box) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.acked[text]
}

func newBox() *box { return &box{acked: map[string]int{}} }

func (b *box) start(t *testing.T, cursor string) *keeper {
	t.Helper()
	b.mu.Lock()
	b.next = 0
	b.mu.Unlock()
	over := make(chan struct{})
	return startSource(t, cursor, 10, func(ctx context.Context, f *feed.Feed) error {
		defer close(over)
		return stream.Consume(ctx, f, &life{b, over})
	})
}

// TestConsume checks that a message is acknowledged after it is stored. If the process dies in between, the
// next process acknowledges the message when it comes again, and gives no event.
func TestConsume(t *testing.T) {
	b := newBox()
	k := b.start(t, "")
	b.put("a", "b", "a")
	l := k.next()
	if !slices.Equal(keysOf(l), []string{"message a", "message b"}) {
		t.Fatalf("%v", keysOf(l))
	}
	if b.count("a") != 0 {
		t.Error("a message is acknowledged that is not stored")
	}
	k.store(1)
	if err := k.end(); err != nil { // before it ends, the source acknowledges stored messages
		t.Fatal(err)
	}
	if b.count("a") != 2 || b.count("b") != 1 {
		t.Errorf("%v", b.acked)
	}

	// The node has stored the line, but the process has not acknowledged it.
	b = newBox()
	b.refusing = io.ErrClosedPipe
	k = b.start(t, "")
	b.put("a", "-x")
	l = k.next()
	k.store(1)
	if err := <-k.ended; !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
	b.refusing = nil
	k = b.start(t, string(l.Cursor))
	b.put("c")
	again := k.next()
	if got := keysOf(again); len(got) != 2 || got[1] != "message c" || got[0] == keysOf(l)[1] {
		t.Errorf("%v after %v: a message without an id fires again, and one with an id does not", got, keysOf(l))
	}
	k.store(1)
	if err := k.end(); err != nil {
		t.Fatal(err)
	}
	if b.count("a") != 1 || b.count("-x") != 1 || b.count("c") != 1 {
		t.Errorf("%v", b.acked)
	}
	k = b.start(t, `{"taken":-1}`)
	if err := <-k.ended; !isPermanent(err) {
		t.Error(err)
	}
}

// TestConsumeIsBounded checks that a source holds no more messages than its cursor has room for.
func TestConsumeIsBounded(t *testing.T) {
	b := newBox()
	k := b.start(t, "")
	var all []string
	for i := range 3 * stream.OpenMax {
		all = append(all, fmt.Sprintf("m%d", i))
	}
	b.put(all...)
	given := 0
	for n := int64(1); given < stream.OpenMax; n++ {
		l := k.next()
		if given += len(l.Events); len(l.Cursor) > 16<<10 {
			t.Fatalf("a cursor has %d bytes", len(l.Cursor))
		}
	}
	if given != stream.OpenMax {
		t.Errorf("%d messages were given", given)
	}
	b.mu.Lock()
	received := b.next
	b.mu.Unlock()
	if received != stream.OpenMax {
		t.Errorf("%d messages were received", received)
	}
	k.store(stream.OpenMax / 10)
	if l := k.next(); !slices.Contains(keysOf(l), fmt.Sprintf("message m%d", stream.OpenMax)) {
		t.Errorf("%v", keysOf(l))
	}
	if err := k.end(); err != nil {
		t.Error(err)
	}
}

// TestFind checks that the key id of a trigger can name a text or a number.
func TestFind(t *testing.T) {
	const event = `{"value":{"id":"x1","n":12345678901234567890,"o":{},"e":""}}`
	for path, want := range map[string]string{"event.value.id": "x1", "event.value.n": "12345678901234567890"} {
		if got, err := stream.Find([]byte(event), path); got != want || err != nil {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	for _, path := range []string{"event.value.none", "event.value.o", "event.value.e", "event.value.id.x", "event"} {
		if got, err := stream.Find([]byte(event), path); err == nil {
			t.Errorf("%s: %q", path, got)
		}
	}
}
