// Package stream holds what the sources of skein-plus share: the start and the end of a source, the lines
// that it gives to the node, and their bounds. Follow reads a log whose messages keep their positions, such
// as a Kafka topic. Consume takes messages from a queue that deletes them when they are acknowledged.
package stream

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/feed"
	"skein.dev/skein/internal/secret"
)

// Permanent returns an error for a source that cannot continue until a person changes something.
func Permanent(format string, args ...any) error {
	return &feed.Error{Code: feed.Permanent, Err: fmt.Errorf(format, args...)}
}

// Read decodes the connection and the input of a Start. with may be nil.
func Read(start *feed.Start, connection, with any) error {
	// The error is dropped, because it could contain a secret.
	if json.Unmarshal(start.Connection, connection) != nil {
		return Permanent("the source %s needs a connection of its type", start.Source)
	}
	if with != nil && json.Unmarshal(start.With, with) != nil {
		return Permanent("the input of the source %s cannot be read", start.Source)
	}
	return nil
}

// Transport returns a transport for HTTP by the rules of egress, which uses TLS as a connection wants it.
func Transport(start *feed.Start, s *broker.Security) (*http.Transport, error) {
	var rules egress.Rules
	if err := json.Unmarshal(start.Egress, &rules); err != nil {
		return nil, Permanent("the rules of egress cannot be read")
	}
	is, err := egress.Transport(rules)
	if err != nil {
		return nil, Permanent("%w", err)
	}
	if is.TLSClientConfig, err = s.Config(Plain(s.Key)); err != nil {
		return nil, Permanent("%w", err)
	}
	return is, nil
}

// Dial opens a connection.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Dialers returns two dial functions that obey the egress rules: one for plain connections, and one that uses
// TLS if the connection says so. If the connection uses no TLS, both are the same, and cfg is nil.
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

// Lines gives the events of a source to the node, in lines within the bounds of package feed.
type Lines struct {
	feed   *feed.Feed
	cursor func() any    // returns the position after all added events
	lag    func() *int64 // returns the number of waiting messages; nil if it is unknown
	events []feed.Event
	size   int
	moved  bool
	given  int64 // number of lines with a cursor that were given
}

// cursorMax bounds the bytes of a cursor. The engine has the same bound.
const cursorMax = 16 << 10

// Add adds an event. Afterwards the caller must move its position past the event, and call Moved.
func (l *Lines) Add(e feed.Event) error {
	if n := len(l.events); n > 0 && (n >= l.feed.Start.Events || l.size+e.Size() > feed.BytesMax) {
		if err := l.Flush(); err != nil {
			return err
		}
	}
	l.events, l.size = append(l.events, e), l.size+e.Size()
	return nil
}

// Moved records that the caller's position has moved.
func (l *Lines) Moved() { l.moved = true }

// Flush gives the added events to the node.
func (l *Lines) Flush() error {
	if !l.moved && len(l.events) == 0 {
		return nil
	}
	return l.give(&feed.Line{Events: l.events})
}

// Lost reports that messages before the caller's position no longer exist. The caller must call Flush before
// it moves its position past the lost messages.
func (l *Lines) Lost(n int64, why string) error {
	return l.give(&feed.Line{Lost: n, Why: why})
}

// give gives a line to the node, with the cursor.
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

// alive reports that the broker answers.
func (l *Lines) alive() error { return l.feed.Give(&feed.Line{Lag: l.lag()}) }

// instant returns the instant to which a person has moved the position. ok is false if raw is not an instant.
func instant(raw json.RawMessage) (at time.Time, ok bool) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return at, false
	}
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil
}

// ended returns the error of a source. It returns nil if ctx has ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Plain returns the value of a secret in a connection, or "" if there is none.
func Plain(t *secret.Text) string {
	if t == nil {
		return ""
	}
	return t.Plain
}
