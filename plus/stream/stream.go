// Package stream is what the sources of skein-plus have in common: how a source starts and ends, the lines
// that it gives to the node, and their bounds. Follow reads a log whose messages keep their positions, such
// as a topic of Kafka. Consume takes messages from a queue, which forgets them once they are acknowledged.
package stream

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/feed"
	"skein.dev/skein/internal/secret"
)

// Permanent returns the error of a source that cannot read until a person changes something.
func Permanent(format string, args ...any) error {
	return &feed.Error{Code: feed.Permanent, Err: fmt.Errorf(format, args...)}
}

// Read reads the connection and the input of a start. with may be nil.
func Read(start *feed.Start, connection, with any) error {
	if json.Unmarshal(start.Connection, connection) != nil { // the error could show a secret
		return Permanent("the source %s needs a connection of its type", start.Source)
	}
	if with != nil && json.Unmarshal(start.With, with) != nil {
		return Permanent("the input of the source %s cannot be read", start.Source)
	}
	return nil
}

// Dial opens connections.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Dialers returns two diallers by the rules of egress: one for plain connections, and one that uses TLS as a
// connection wants it. If the connection wants no TLS, both are the same, and cfg is nil.
func Dialers(start *feed.Start, s *broker.Security) (plain, secured Dial, cfg *tls.Config, err error) {
	var rules egress.Rules
	if err := json.Unmarshal(start.Egress, &rules); err != nil {
		return nil, nil, nil, Permanent("the rules of egress cannot be read")
	}
	if plain, err = egress.Dialer(rules); err != nil {
		return nil, nil, nil, Permanent("%w", err)
	}
	if cfg, err = s.Config(Plain(s.Key)); err != nil {
		return nil, nil, nil, Permanent("%w", err)
	}
	if cfg == nil {
		return plain, plain, nil, nil
	}
	return plain, func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := plain(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := cfg.Clone()
		if own.ServerName, _, err = net.SplitHostPort(address); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		is := tls.Client(conn, own)
		if err := is.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return is, nil
	}, cfg, nil
}

// Lines gives the events of a source to the node, in lines within the bounds.
type Lines struct {
	feed   *feed.Feed
	cursor func() any    // the position after all events that were added
	lag    func() *int64 // the number of messages that wait; nil: unknown
	events []feed.Event
	size   int
	moved  bool
	given  int64 // lines with a cursor
}

// cursorMax bounds a cursor in bytes, as the engine does.
const cursorMax = 16 << 10

// Add adds an event. The caller moves its position behind the event afterwards, and calls Moved.
func (l *Lines) Add(e feed.Event) error {
	if n := len(l.events); n > 0 && (n >= l.feed.Start.Events || l.size+e.Size() > feed.BytesMax) {
		if err := l.Flush(); err != nil {
			return err
		}
	}
	l.events, l.size = append(l.events, e), l.size+e.Size()
	return nil
}

// Moved says that the position of the caller has moved.
func (l *Lines) Moved() { l.moved = true }

// Flush gives the events that were added.
func (l *Lines) Flush() error {
	if !l.moved && len(l.events) == 0 {
		return nil
	}
	return l.give(&feed.Line{Events: l.events})
}

// Lost says that messages up to the position of the caller no longer exist. The caller flushes the events
// that it has added before it moves its position over the lost messages.
func (l *Lines) Lost(n int64, why string) error {
	return l.give(&feed.Line{Lost: n, Why: why})
}

// give gives a line with the cursor.
func (l *Lines) give(line *feed.Line) error {
	raw, err := json.Marshal(l.cursor())
	if err != nil {
		return fmt.Errorf("encode the cursor: %w", err)
	}
	if len(raw) > cursorMax {
		return Permanent("the position has %d bytes; the limit is %d", len(raw), cursorMax)
	}
	line.Cursor, line.Lag = raw, l.lag()
	if err := l.feed.Give(line); err != nil {
		return err
	}
	l.events, l.size, l.moved = nil, 0, false
	l.given++
	return nil
}

// alive says that the other side answers.
func (l *Lines) alive() error { return l.feed.Give(&feed.Line{Lag: l.lag()}) }

// instant returns the instant to which a person has moved the position. ok is false if raw is no instant.
func instant(raw json.RawMessage) (at time.Time, ok bool) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return at, false
	}
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil
}

// ended returns the error of a source, or nil if the source ended because ctx has ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Plain returns the value of a secret of a connection; "": there is none.
func Plain(t *secret.Text) string {
	if t == nil {
		return ""
	}
	return t.Plain
}
