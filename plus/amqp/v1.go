package amqp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	v1 "github.com/Azure/go-amqp"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/feed"
	"skein.dev/skein/plus/stream"
)

const (
	// silenceMax bounds how long a broker may send nothing. Half of it is the interval of heartbeats.
	silenceMax = 20 * time.Second
	// endMax bounds the return of messages when the source ends.
	endMax = 2 * time.Second
	// depthMax bounds the nesting of a value in a message.
	depthMax = 100
)

// open1 connects to a broker of AMQP 1.0 and signs in: with the user, with the certificate, or as anonymous.
func open1(ctx context.Context, start *feed.Start) (*v1.Conn, error) {
	var c broker.AMQP
	if err := stream.Read(start, &c, nil); err != nil {
		return nil, err
	}
	_, dial, _, err := stream.Dialers(start, &c.Security)
	if err != nil {
		return nil, err
	}
	opts := v1.ConnOptions{HostName: c.Host, IdleTimeout: silenceMax, WriteTimeout: callMax, SASLType: v1.SASLTypeAnonymous(),
		Properties: map[string]any{"product": "skein"}}
	if c.VHost != "" {
		opts.HostName = "vhost:" + c.VHost // RabbitMQ reads it so
	}
	switch {
	case c.User != "":
		opts.SASLType = v1.SASLTypePlain(c.User, stream.Plain(c.Password))
	case c.Certificate != "":
		opts.SASLType = v1.SASLTypeExternal("")
	}
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	address := c.Address(broker.AMQPPort, broker.AMQPPortSecured)
	link, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the broker %s cannot be used: %w", address, err)
	}
	conn, err := v1.NewConn(ctx, link, &opts) // it closes link if it fails
	if err != nil {
		return nil, fmt.Errorf("the broker %s cannot be used: %w", address, err)
	}
	return conn, nil
}

// test1 signs in to a broker of AMQP 1.0.
func test1(ctx context.Context, start *feed.Start) (found string, err error) {
	conn, err := open1(ctx, start)
	if err != nil {
		return "", err
	}
	is := conn.Properties()
	name := func(key string) string {
		text, _ := is[key].(string)
		return text
	}
	return described("1.0", name("product"), name("version")), conn.Close()
}

// main1 runs the source with AMQP 1.0.
func main1(ctx context.Context, f *feed.Feed, with broker.AMQPInput) error {
	conn, err := open1(ctx, &f.Start)
	if err != nil {
		return err
	}
	defer conn.Close()
	call, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	s := &source1{with: with}
	session, err := conn.NewSession(call, nil)
	if err == nil {
		// A sender that settles a message when it sends it would lose it with this process. So it is refused.
		s.link, err = session.NewReceiver(call, with.Queue, &v1.ReceiverOptions{Credit: int32(prefetchOf(&with, f)),
			RequestedSenderSettleMode: v1.SenderSettleModeUnsettled.Ptr()})
	}
	if err != nil {
		return s.failed(err)
	}
	err = stream.Consume(ctx, f, s)
	// The broker releases the messages of a closed link. It does not count this as a failed delivery.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endMax)
	defer cancel()
	_ = s.link.Close(end) // the broker also releases the messages of a broken connection
	return err
}

// source1 takes the messages of one link of AMQP 1.0.
type source1 struct {
	with broker.AMQPInput
	link *v1.Receiver
}

// failed returns an error with the queue, and with the reason that the broker gives.
func (s *source1) failed(err error) error {
	var link *v1.LinkError
	var session *v1.SessionError
	var conn *v1.ConnError
	said := (*v1.Error)(nil)
	switch {
	case errors.As(err, &link):
		said = link.RemoteErr
	case errors.As(err, &session):
		said = session.RemoteErr
	case errors.As(err, &conn):
		said = conn.RemoteErr
	}
	if said != nil {
		return fmt.Errorf("queue %s: the broker says: %s (%s)", s.with.Queue, stream.Name(said.Description), stream.Name(string(said.Condition)))
	}
	return fmt.Errorf("queue %s: %w", s.with.Queue, err)
}

// Receive implements stream.Queue.
func (s *source1) Receive(ctx context.Context, most int) (all []stream.Message[*v1.Message], err error) {
	m, err := s.link.Receive(ctx, nil)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil
		}
		return nil, s.failed(err)
	}
	for ; m != nil; m = s.link.Prefetched() {
		if all = append(all, s.message(m)); len(all) == most {
			break
		}
	}
	return all, nil
}

// Acknowledge implements stream.Queue. It rejects messages that cannot be used, so that the broker moves them
// to the dead letters if it has a place for these.
func (s *source1) Acknowledge(ctx context.Context, all []stream.Message[*v1.Message]) error {
	for i := range all {
		err := error(nil)
		if m := all[i].Handle; all[i].Event.Value == nil {
			err = s.link.RejectMessage(ctx, m, &v1.Error{Condition: v1.ErrCondDecodeError, Description: all[i].Event.Reason})
		} else {
			err = s.link.AcceptMessage(ctx, m)
		}
		if err != nil {
			return s.failed(err)
		}
	}
	return nil
}

// Waiting implements stream.Queue. AMQP 1.0 has no request for the number.
func (s *source1) Waiting(context.Context) (*int64, error) { return nil, nil }

func (s *source1) message(m *v1.Message) stream.Message[*v1.Message] {
	p := m.Properties
	if p == nil {
		p = &v1.MessageProperties{}
	}
	text := func(t *string) string {
		if t == nil {
			return ""
		}
		return stream.Name(*t)
	}
	at := time.Time{}
	if p.CreationTime != nil {
		at = stream.Time(*p.CreationTime)
	}
	id := textOf(p.MessageID)
	value, err := contentOf(m, s.with.Value)
	e := stream.Event("", "message of queue "+s.with.Queue, at, struct {
		Queue         string          `json:"queue"`
		MessageID     string          `json:"message_id"`
		CorrelationID string          `json:"correlation_id"`
		Group         string          `json:"group"`
		Subject       string          `json:"subject"`
		ContentType   string          `json:"content_type"`
		Timestamp     time.Time       `json:"timestamp"`
		Headers       any             `json:"headers"`
		Annotations   any             `json:"annotations"`
		Value         json.RawMessage `json:"value"`
	}{s.with.Queue, id, textOf(p.CorrelationID), text(p.GroupID), text(p.Subject), text(p.ContentType), at,
		plain1(m.ApplicationProperties, 0), plain1(m.Annotations, 0), value}, err)
	if s.with.ID == "" {
		return stream.Message[*v1.Message]{Handle: m, ID: id, Event: e}
	}
	return stream.Identified(m, e, s.with.ID)
}

// textOf returns an ID of a message, which is a text, a number, a UUID or bytes, as a text.
func textOf(id any) string {
	switch is := id.(type) {
	case nil:
		return ""
	case []byte:
		return stream.Text(is)
	}
	return stream.Name(fmt.Sprint(id))
}

// contentOf returns the body of a message in the form that the trigger wants. The body is bytes, or a value
// of AMQP. A value that is neither text nor bytes becomes JSON.
func contentOf(m *v1.Message, form string) (json.RawMessage, error) {
	body := m.Value
	if len(m.Data) > 0 {
		raw := []byte{}
		for _, part := range m.Data {
			raw = append(raw, part...)
		}
		body = raw
	} else if len(m.Sequence) > 0 {
		body = m.Sequence
	}
	switch is := body.(type) {
	case nil:
		return stream.Content(nil, form)
	case []byte:
		return stream.Content(is, form)
	case string:
		return stream.Content([]byte(is), form)
	}
	if form != broker.ValueJSON {
		return nil, errors.New("its value is a structure of AMQP and not text; to read such values, set value: json")
	}
	raw, err := json.Marshal(plain1(body, 0))
	if err != nil {
		return nil, err
	}
	return stream.Content(raw, form)
}

// plain1 converts a value of AMQP 1.0 to a value of JSON.
func plain1(v any, depth int) any {
	if depth > depthMax {
		return nil
	}
	switch is := v.(type) {
	case nil, bool:
		return is
	case []byte:
		return stream.Text(is)
	case time.Time:
		return stream.Time(is)
	case v1.UUID:
		return is.String()
	}
	switch of := reflect.ValueOf(v); of.Kind() {
	case reflect.Map:
		all := map[string]any{}
		for _, key := range of.MapKeys() {
			all[textOf(key.Interface())] = plain1(of.MapIndex(key).Interface(), depth+1)
		}
		return all
	case reflect.Slice, reflect.Array:
		all := []any{}
		for i := range of.Len() {
			all = append(all, plain1(of.Index(i).Interface(), depth+1))
		}
		return all
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return of.Int()
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return of.Uint()
	case reflect.Float32, reflect.Float64:
		if f := of.Float(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
	}
	return stream.Name(fmt.Sprint(v)) // a text, or a number that JSON does not have
}
