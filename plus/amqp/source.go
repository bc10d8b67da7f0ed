// Package amqp takes messages from a queue of a broker of AMQP 0.9.1, such as RabbitMQ, or of AMQP 1.0. It
// acknowledges a message after the node has stored it.
package amqp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	client "github.com/rabbitmq/amqp091-go"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/feed"
	"skein.dev/skein/plus/stream"
)

const (
	callMax   = 10 * time.Second // bounds the time to open a connection
	heartbeat = 10 * time.Second
	// prefetchMin is the least number of messages that the broker sends in advance, if the trigger does not
	// set a number.
	prefetchMin = 100
)

// open connects to the broker and signs in.
func open(start *feed.Start) (*client.Connection, error) {
	var c broker.AMQP
	if err := stream.Read(start, &c, nil); err != nil {
		return nil, err
	}
	_, dial, _, err := stream.Dialers(start, &c.Security)
	if err != nil {
		return nil, err
	}
	vhost, user, password := c.VHost, c.User, stream.Plain(c.Password)
	if vhost == "" {
		vhost = "/"
	}
	if user == "" {
		user, password = "guest", "guest" // the defaults of AMQP clients
	}
	address := c.Address(broker.AMQPPort, broker.AMQPPortSecured)
	conn, err := client.DialConfig("amqp://"+address, client.Config{
		SASL: []client.Authentication{&client.PlainAuth{Username: user, Password: password}}, Vhost: vhost, Heartbeat: heartbeat,
		Properties: client.Table{"product": "skein", "connection_name": "skein"},
		Dial: func(network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), callMax)
			defer cancel()
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			// The library removes the deadline once the connection is open.
			if err := conn.SetDeadline(time.Now().Add(callMax)); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return conn, nil
		},
	})
	if isOther(err) {
		err = fmt.Errorf("%w; if the broker has AMQP 1.0, set version: 1.0 at the trigger", err)
	}
	if err != nil {
		return nil, fmt.Errorf("the broker %s cannot be used: %w", address, err)
	}
	return conn, nil
}

// isOther reports whether the answer of a broker is not one of AMQP 0.9.1.
func isOther(err error) bool {
	var e *client.Error
	return errors.As(err, &e) && e.Code == client.FrameError && !e.Server
}

// Test signs in and opens the virtual host. It tries AMQP 1.0 if the broker does not answer in AMQP 0.9.1.
func Test(ctx context.Context, start *feed.Start) (found string, err error) {
	conn, err := open(start)
	if isOther(err) {
		short, cancel := context.WithTimeout(ctx, callMax/2) // a test has callMax in all
		defer cancel()
		if found, other := test1(short, start); other == nil {
			return found, nil
		}
	}
	if err != nil {
		return "", err
	}
	name := func(key string) string {
		text, _ := conn.Properties[key].(string)
		return text
	}
	return described("0.9.1", name("product"), name("version")), conn.Close()
}

func described(protocol, product, version string) string {
	return stream.Name(fmt.Sprintf("a broker of AMQP %s: %.100s %.100s", protocol, product, version))
}

// prefetchOf returns the number of messages that the broker sends in advance.
func prefetchOf(with *broker.AMQPInput, f *feed.Feed) int {
	if with.Prefetch > 0 {
		return with.Prefetch
	}
	return max(prefetchMin, f.Start.Events)
}

// Main runs the source. It returns nil when ctx has ended, or an error if the source cannot continue.
func Main(ctx context.Context, f *feed.Feed) error {
	s := &source{}
	if err := stream.Read(&f.Start, &broker.AMQP{}, &s.with); err != nil {
		return err
	}
	if s.with.Version == broker.AMQP10 {
		return main1(ctx, f, s.with)
	}
	conn, err := open(&f.Start)
	if err != nil {
		return err
	}
	defer conn.Close()
	s.conn = conn
	if s.channel, err = conn.Channel(); err != nil {
		return err
	}
	s.closed = s.channel.NotifyClose(make(chan *client.Error, 1))
	if err := s.channel.Qos(prefetchOf(&s.with, f), 0, false); err != nil {
		return err
	}
	if s.came, err = s.channel.Consume(s.with.Queue, "", false, false, false, false, nil); err != nil {
		return fmt.Errorf("queue %s: %w", s.with.Queue, err)
	}
	return stream.Consume(ctx, f, s)
}

// source takes the messages of one queue.
type source struct {
	with    broker.AMQPInput
	conn    *client.Connection
	channel *client.Channel
	came    <-chan client.Delivery
	closed  chan *client.Error // cap 1
	asking  *client.Channel    // queries the number of waiting messages; nil if it is not open
}

// Receive implements stream.Queue.
func (s *source) Receive(ctx context.Context, most int) (all []stream.Message[uint64], err error) {
	select {
	case <-ctx.Done():
		return nil, nil
	case d, ok := <-s.came:
		if !ok {
			return nil, s.ended()
		}
		all = append(all, s.message(&d))
	}
	for len(all) < most {
		select {
		case d, ok := <-s.came:
			if !ok {
				return nil, s.ended()
			}
			all = append(all, s.message(&d))
		default:
			return all, nil
		}
	}
	return all, nil
}

// ended returns the reason why no more messages arrive.
func (s *source) ended() error {
	select {
	case why := <-s.closed:
		if why != nil {
			return fmt.Errorf("queue %s: %w", s.with.Queue, why)
		}
	default:
	}
	return fmt.Errorf("queue %s: the broker sends no more messages; perhaps the queue was deleted", s.with.Queue)
}

// Acknowledge implements stream.Queue. It rejects messages that cannot be used, so that a queue with a dead
// letter exchange moves them there.
func (s *source) Acknowledge(_ context.Context, all []stream.Message[uint64]) error {
	for _, m := range all {
		err := error(nil)
		if m.Event.Value == nil {
			err = s.channel.Reject(m.Handle, false)
		} else {
			err = s.channel.Ack(m.Handle, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Waiting implements stream.Queue. It returns nil if the user may not query the number.
func (s *source) Waiting(context.Context) (*int64, error) {
	if s.asking == nil {
		var err error
		if s.asking, err = s.conn.Channel(); err != nil {
			return nil, s.ended()
		}
	}
	q, err := s.asking.QueueDeclarePassive(s.with.Queue, false, false, false, false, nil)
	if err != nil { // after an error, the broker closes this channel
		s.asking = nil
		return nil, nil
	}
	n := int64(q.Messages)
	return &n, nil
}

func (s *source) message(d *client.Delivery) stream.Message[uint64] {
	value, err := stream.Content(d.Body, s.with.Value)
	at := stream.Time(d.Timestamp)
	e := stream.Event("", "message of queue "+s.with.Queue, at, struct {
		Queue         string          `json:"queue"`
		Exchange      string          `json:"exchange"`
		RoutingKey    string          `json:"routing_key"`
		MessageID     string          `json:"message_id"`
		CorrelationID string          `json:"correlation_id"`
		Type          string          `json:"type"`
		ContentType   string          `json:"content_type"`
		Timestamp     time.Time       `json:"timestamp"`
		Headers       any             `json:"headers"`
		Value         json.RawMessage `json:"value"`
	}{s.with.Queue, stream.Name(d.Exchange), stream.Name(d.RoutingKey), stream.Name(d.MessageId), stream.Name(d.CorrelationId), stream.Name(d.Type),
		stream.Name(d.ContentType), at, plain(d.Headers), value}, err)
	if s.with.ID == "" {
		return stream.Message[uint64]{Handle: d.DeliveryTag, ID: d.MessageId, Event: e}
	}
	return stream.Identified(d.DeliveryTag, e, s.with.ID)
}

// plain converts a value of a header to a value of JSON.
func plain(v any) any {
	switch is := v.(type) {
	case client.Table:
		all := map[string]any{}
		for name, part := range is {
			all[stream.Name(name)] = plain(part)
		}
		return all
	case []any:
		all := []any{}
		for _, part := range is {
			all = append(all, plain(part))
		}
		return all
	case []byte:
		return stream.Text(is)
	case string:
		return stream.Name(is)
	case nil, bool, int, int8, int16, int32, int64, uint8, uint16:
		return is
	}
	return fmt.Sprint(v) // a number that JSON does not have, or a time
}
