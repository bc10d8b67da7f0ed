// Package mqtt takes messages from an MQTT 5 broker. The broker keeps a session for each trigger, so messages
// wait there while the source is away. The source acknowledges a message after the node has stored it.
package mqtt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	client "github.com/eclipse/paho.golang/paho"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/feed"
	"skein.dev/skein/plus/stream"
)

const (
	// callMax bounds a request to the broker.
	callMax = 10 * time.Second
	// sessionMax is the time for which the broker keeps the session of a source that is not connected.
	sessionMax = 7 * 24 * time.Hour
	// acknowledgeEvery is the interval at which acknowledgements are sent.
	acknowledgeEvery = 5 * time.Millisecond
	keepAlive        = 15 // seconds
)

// open connects to the broker and signs in.
func open(ctx context.Context, start *feed.Start, cfg *client.ClientConfig, ask *client.Connect) (*client.Client, *client.Connack, error) {
	var c broker.MQTT
	if err := stream.Read(start, &c, nil); err != nil {
		return nil, nil, err
	}
	_, dial, _, err := stream.Dialers(start, &c.Security)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	if cfg.Conn, err = dial(ctx, "tcp", c.Address(broker.MQTTPort, broker.MQTTPortSecured)); err != nil {
		return nil, nil, err
	}
	cfg.PacketTimeout = callMax
	ask.KeepAlive = keepAlive
	ask.Username, ask.UsernameFlag = c.User, c.User != ""
	if c.Password != nil {
		ask.Password, ask.PasswordFlag = []byte(c.Password.Plain), true
	}
	is := client.NewClient(*cfg)
	answer, err := is.Connect(ctx, ask)
	switch {
	case answer != nil && answer.ReasonCode >= 0x80:
		_ = cfg.Conn.Close() // an error is expected if the library has closed it
		return nil, nil, refused(answer)
	case err != nil:
		_ = cfg.Conn.Close()
		return nil, nil, fmt.Errorf("the broker does not answer as a broker of MQTT 5: %w", err)
	}
	return is, answer, nil
}

// reasons maps the codes with which a broker refuses a session to words.
var reasons = map[byte]string{
	0x84: "it does not speak MQTT 5", 0x85: "the name of the session is not valid", 0x86: "the user or the password is wrong", 0x87: "the user is not authorized",
	0x88: "it is not available", 0x89: "it is busy", 0x8A: "the user is banned", 0x97: "a quota is exceeded", 0x9F: "there are too many connections",
}

func refused(answer *client.Connack) error {
	why := reasons[answer.ReasonCode]
	if why == "" {
		why = "reason " + fmt.Sprintf("0x%02X", answer.ReasonCode)
	}
	if p := answer.Properties; p != nil && p.ReasonString != "" {
		why += ", " + p.ReasonString
	}
	return errors.New("the broker refuses the session: " + why)
}

// Test signs in to the broker.
func Test(ctx context.Context, start *feed.Start) (found string, err error) {
	is, _, err := open(ctx, start, &client.ClientConfig{}, &client.Connect{CleanStart: true})
	if err != nil {
		return "", err
	}
	return "a broker of MQTT 5", is.Disconnect(&client.Disconnect{})
}

// sessionName returns the name of a trigger's session. It has at most 23 letters and digits, because every
// broker must accept such names.
func sessionName(start *feed.Start) string {
	sum := sha256.Sum256([]byte(start.Namespace + "/" + start.Workflow + "/" + start.Trigger))
	return "skein" + hex.EncodeToString(sum[:9])
}

// Main runs the source. It returns nil when ctx has ended, or an error if the source cannot continue.
func Main(ctx context.Context, f *feed.Feed) error {
	s := &source{came: make(chan *client.Publish, stream.OpenMax), failed: make(chan error, 1)}
	if err := stream.Read(&f.Start, &broker.MQTT{}, &s.with); err != nil {
		return err
	}
	room, kept := uint16(stream.OpenMax), uint32(sessionMax/time.Second)
	cfg := client.ClientConfig{
		EnableManualAcknowledgment: true, SendAcksInterval: acknowledgeEvery,
		OnPublishReceived: []func(client.PublishReceived) (bool, error){s.receive},
		OnClientError:     s.fail,
		OnServerDisconnect: func(d *client.Disconnect) {
			s.fail(fmt.Errorf("the broker has ended the session: reason 0x%02X", d.ReasonCode))
		},
	}
	var err error
	s.client, _, err = open(ctx, &f.Start, &cfg, &client.Connect{ClientID: sessionName(&f.Start),
		Properties: &client.ConnectProperties{SessionExpiryInterval: &kept, ReceiveMaximum: &room}})
	if err != nil {
		return err
	}
	defer s.close()
	call, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	// The broker sends retained messages only when the session subscribes for the first time, not after each
	// start.
	if _, err := s.client.Subscribe(call, &client.Subscribe{Subscriptions: []client.SubscribeOptions{{Topic: s.with.Topic, QoS: 1, RetainHandling: 1, RetainAsPublished: true}}}); err != nil {
		return fmt.Errorf("the broker refuses the topic %s: %w", s.with.Topic, err)
	}
	return stream.Consume(ctx, f, s)
}

// source takes the messages of one topic filter.
type source struct {
	with   broker.MQTTInput
	client *client.Client
	// came holds the messages that Receive has not returned yet. The broker sends no more unacknowledged
	// messages than its capacity.
	came   chan *client.Publish
	failed chan error // cap 1
}

func (s *source) close() {
	time.Sleep(4 * acknowledgeEvery) // the library sends acknowledgements in the background
	_ = s.client.Disconnect(&client.Disconnect{})
}

func (s *source) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

func (s *source) receive(p client.PublishReceived) (bool, error) {
	select {
	case s.came <- p.Packet:
	default:
		s.fail(errors.New("the broker sends more messages than a session allows"))
	}
	return true, nil
}

// Receive implements stream.Queue.
func (s *source) Receive(ctx context.Context, most int) (all []stream.Message[*client.Publish], err error) {
	select {
	case <-ctx.Done():
		return nil, nil
	case err := <-s.failed:
		return nil, fmt.Errorf("the connection to the broker is lost: %w", err)
	case p := <-s.came:
		all = append(all, s.message(p))
	}
	for len(all) < most {
		select {
		case p := <-s.came:
			all = append(all, s.message(p))
		default:
			return all, nil
		}
	}
	return all, nil
}

// Acknowledge implements stream.Queue.
func (s *source) Acknowledge(_ context.Context, all []stream.Message[*client.Publish]) error {
	for _, m := range all {
		if err := s.client.Ack(m.Handle); err != nil {
			return err
		}
	}
	return nil
}

// Waiting implements stream.Queue. MQTT brokers do not report the number.
func (s *source) Waiting(context.Context) (*int64, error) { return nil, nil }

func (s *source) message(p *client.Publish) stream.Message[*client.Publish] {
	value, err := stream.Content(p.Payload, s.with.Value)
	properties := map[string][]string{}
	contentType := ""
	if is := p.Properties; is != nil {
		contentType = is.ContentType
		for _, one := range is.User {
			name := stream.Name(one.Key)
			properties[name] = append(properties[name], stream.Name(one.Value))
		}
	}
	e := stream.Event("", "message of "+stream.Name(p.Topic), time.Time{}, struct {
		Topic       string              `json:"topic"`
		Retained    bool                `json:"retained"`
		ContentType string              `json:"content_type"`
		Properties  map[string][]string `json:"properties"`
		Value       json.RawMessage     `json:"value"`
	}{stream.Name(p.Topic), p.Retain, stream.Name(contentType), properties, value}, err)
	return stream.Identified(p, e, s.with.ID)
}
