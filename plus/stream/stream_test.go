package stream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/feed"
	"skein.dev/skein/plus/stream"
)

// keeper plays the node: it reads the lines of a source and stores them.
type keeper struct {
	t     *testing.T
	lines *bufio.Scanner
	in    io.WriteCloser
	ended chan error
}

// startSource runs a source with a stored cursor.
func startSource(t *testing.T, cursor string, most int, run func(context.Context, *feed.Feed) error) *keeper {
	t.Helper()
	input, in := io.Pipe()
	out, output := io.Pipe()
	k := &keeper{t: t, lines: bufio.NewScanner(out), in: in, ended: make(chan error, 1)}
	k.lines.Buffer(nil, feed.LineMax)
	start := feed.Start{Protocol: feed.Protocol, From: "beginning", Events: most, Since: time.Unix(1_700_000_000, 0)}
	if cursor != "" {
		start.Cursor = json.RawMessage(cursor)
	}
	go func() {
		f, ctx, err := feed.Open(t.Context(), input, output)
		if err == nil {
			err = run(ctx, f)
		}
		k.ended <- err
		_ = output.Close()
	}()
	raw, err := json.Marshal(start)
	if err == nil {
		_, err = in.Write(append(raw, '\n'))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), out.Close() })
	return k
}

// next returns the next line with a cursor.
func (k *keeper) next() (l feed.Line) {
	k.t.Helper()
	for k.lines.Scan() {
		l = feed.Line{}
		if err := json.Unmarshal(k.lines.Bytes(), &l); err != nil {
			k.t.Fatal(err)
		}
		if l.Cursor != nil {
			return l
		}
	}
	k.t.Fatalf("the source has ended: %v", <-k.ended)
	return l
}

// end ends the source, and returns its error.
func (k *keeper) end() error {
	_ = k.in.Close()
	go func() { _, _ = io.Copy(io.Discard, k.rest()) }()
	return <-k.ended
}

func (k *keeper) rest() io.Reader {
	r, w := io.Pipe()
	go func() {
		for k.lines.Scan() {
		}
		_ = w.Close()
	}()
	return r
}

// numbers is a log of numbers.
type numbers struct {
	at, first, last int
	failing         error // error of a look
}

func (n *numbers) Restore(raw json.RawMessage) error {
	if err := json.Unmarshal(raw, &n.at); err != nil || n.at < 0 {
		return errors.New("no number")
	}
	return nil
}

func (n *numbers) Begin(_ context.Context, since time.Time) error {
	if n.at = n.first; !since.IsZero() {
		n.at = int(since.Unix() % 100)
	}
	return nil
}

func (n *numbers) Cursor() any { return n.at }
func (n *numbers) Lag() *int64 { lag := int64(n.last - n.at); return &lag }

func (n *numbers) Look(_ context.Context, lines *stream.Lines) error {
	if lost := n.first - n.at; lost > 0 {
		n.at = n.first
		return lines.Lost(int64(lost), "gone")
	}
	return n.failing
}

func (n *numbers) Read(ctx context.Context, lines *stream.Lines) error {
	if n.at == n.last {
		<-ctx.Done()
	}
	for ; n.at < n.last; lines.Moved() {
		if err := lines.Add(feed.Event{Key: fmt.Sprint(n.at), Value: json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`)}); err != nil {
			return err
		}
		n.at++
	}
	return nil
}

func keysOf(l feed.Line) (all []string) {
	for _, e := range l.Events {
		all = append(all, e.Key)
	}
	return all
}

// TestFollow checks that a log is read from the stored position, in lines within the bounds, and that lost
// messages are counted.
func TestFollow(t *testing.T) {
	k := startSource(t, "", 500, func(ctx context.Context, f *feed.Feed) error {
		return stream.Follow(ctx, f, &numbers{first: 3, last: 8})
	})
	if l := k.next(); string(l.Cursor) != "3" || len(l.Events) != 0 {
		t.Errorf("the first position is %s, with %d events", l.Cursor, len(l.Events))
	}
	if l := k.next(); string(l.Cursor) != "6" || !slices.Equal(keysOf(l), []string{"3", "4", "5"}) {
		t.Errorf("%s %v", l.Cursor, keysOf(l)) // a fourth event would make the line too large
	}
	if l := k.next(); string(l.Cursor) != "8" || !slices.Equal(keysOf(l), []string{"6", "7"}) || *l.Lag != 0 {
		t.Errorf("%s %v", l.Cursor, keysOf(l))
	}
	if err := k.end(); err != nil {
		t.Error(err)
	}

	k = startSource(t, "2", 2, func(ctx context.Context, f *feed.Feed) error {
		return stream.Follow(ctx, f, &numbers{first: 5, last: 8})
	})
	if l := k.next(); string(l.Cursor) != "5" || l.Lost != 3 || len(l.Events) != 0 {
		t.Errorf("%s: %d are lost", l.Cursor, l.Lost)
	}
	if l := k.next(); !slices.Equal(keysOf(l), []string{"5", "6"}) { // a line has at most 2 events here
		t.Errorf("%v", keysOf(l))
	}
	if err := k.end(); err != nil {
		t.Error(err)
	}

	k = startSource(t, `"2026-11-27T00:00:42Z"`, 500, func(ctx context.Context, f *feed.Feed) error {
		return stream.Follow(ctx, f, &numbers{first: 1, last: 90})
	})
	if l := k.next(); string(l.Cursor) != fmt.Sprint(time.Date(2026, 11, 27, 0, 0, 42, 0, time.UTC).Unix()%100) {
		t.Errorf("the instant is at %s", l.Cursor)
	}
	if err := k.end(); err != nil {
		t.Error(err)
	}
	away := errors.New("the broker is away")
	for cursor, permanent := range map[string]bool{`{"x":1}`: true, "-1": true, "7": false} {
		k = startSource(t, cursor, 500, func(ctx context.Context, f *feed.Feed) error {
			return stream.Follow(ctx, f, &numbers{first: 1, last: 9, failing: away})
		})
		if err := <-k.ended; isPermanent(err) != permanent || !permanent && !errors.Is(err, away) {
			t.Errorf("%s: %v", cursor, err)
		}
	}
}

// isPermanent reports whether an error lasts until a person changes something.
func isPermanent(err error) bool {
	var is *feed.Error
	return errors.As(err, &is) && is.Code == feed.Permanent
}

// TestContent checks each form of a value, and values that cannot be used.
func TestContent(t *testing.T) {
	for _, c := range []struct{ given, form, want string }{ // want is empty if the value cannot be used
		{`{"a":1}`, broker.ValueJSON, `{"a":1}`},
		{"{", broker.ValueJSON, ""},
		{"{", broker.ValueText, `"{"`},
		{"\xff\xfe", broker.ValueText, ""},
		{"\xff\xfe", broker.ValueBase64, `"//4="`},
		{strings.Repeat("1", stream.ValueMax+1), broker.ValueJSON, ""},
		{strings.Repeat("1", stream.ValueMax+1), broker.ValueBase64, ""},
	} {
		got, err := stream.Content([]byte(c.given), c.form)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%.20q as %s: %.40s, %v", c.given, c.form, got, err)
		}
	}
	if got, err := stream.Content(nil, broker.ValueJSON); string(got) != "null" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	e := stream.Event("k", "message 1", time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC), strings.Repeat("\u2028", stream.ValueMax/4), nil)
	if !e.Time.IsZero() || e.Value != nil || !strings.HasPrefix(e.Reason, "message 1 cannot be used: the event has ") {
		t.Errorf("%s %.80s", e.Time, e.Reason)
	}
}
