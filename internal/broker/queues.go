package broker

import (
	"errors"
	"strings"
)

// Usual ports, without and with TLS.
const (
	MQTTPort        = 1883
	MQTTPortSecured = 8883
	AMQPPort        = 5672
	AMQPPortSecured = 5671
)

// MQTT is a broker of MQTT 5.
type MQTT struct{ Server }

// Check returns an error that names a fault of the connection, and the remedy.
func (m *MQTT) Check() error { return m.Server.check() }

// MQTTInput is the input of the source mqtt.
type MQTTInput struct {
	Topic string `json:"topic"` // a filter of topics
	Value string `json:"value"` // json | text | base64: what event.value is
	ID    string `json:"id,omitempty"`
}

// Place returns the word for a topic, and the name of the topic that is read.
func (m *MQTTInput) Place() (word, name string) { return "topic", m.Topic }

// Read returns the part that determines what the source reads.
func (m *MQTTInput) Read() any { return MQTTInput{Topic: m.Topic} }

// AMQP is a broker of AMQP 0.9.1 or 1.0, such as RabbitMQ.
type AMQP struct {
	Server
	VHost string `json:"vhost,omitempty"` // "" means /
}

// Check returns an error that names a fault of the connection, and the remedy.
func (a *AMQP) Check() error {
	switch {
	case strings.ContainsAny(a.VHost, "\x00\r\n") || len(a.VHost) > 255:
		return errors.New("vhost must be one line")
	case a.User == "" && a.Password != nil:
		return errors.New("user and password belong together")
	}
	return a.Server.check()
}

// AMQPInput is the input of the source amqp.
type AMQPInput struct {
	Queue string `json:"queue"` // its name; in AMQP 1.0, the address of a source
	// Version is the version of the protocol: "" (0.9.1), "0.9.1" or AMQP10.
	Version string `json:"version,omitempty"`
	// Prefetch is the number of messages that the broker sends before one is acknowledged; 0 means the default.
	Prefetch int    `json:"prefetch,omitempty"`
	Value    string `json:"value"` // json | text | base64: what event.value is
	ID       string `json:"id,omitempty"`
}

// AMQP10 is the version 1.0 of AMQP, which differs from 0.9.1 in everything but its name.
const AMQP10 = "1.0"

// Place returns the word for a queue, and the name of the queue that is read.
func (a *AMQPInput) Place() (word, name string) { return "queue", a.Queue }

// Read returns the part that determines what the source reads.
func (a *AMQPInput) Read() any { return AMQPInput{Queue: a.Queue} }
