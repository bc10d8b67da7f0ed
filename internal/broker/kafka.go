package broker

import (
	"errors"
	"fmt"
	"strings"

	"skein.dev/skein/internal/secret"
)

// Kafka is a cluster of Apache Kafka, or of a server that speaks its protocol.
type Kafka struct {
	// Brokers are addresses as HOST:PORT. One that answers is enough: it returns the addresses of all
	// brokers.
	Brokers []string `json:"brokers"`
	Security
	SASL *KafkaSASL `json:"sasl,omitempty"`
}

// KafkaSASL describes how to sign in.
type KafkaSASL struct {
	Mechanism string       `json:"mechanism"` // one of KafkaMechanisms
	User      string       `json:"user"`
	Password  *secret.Text `json:"password"`
}

// KafkaMechanisms are the known mechanisms of SASL.
var KafkaMechanisms = []string{"plain", "scram-sha-256", "scram-sha-512"}

const brokersMax = 50

// Check returns an error that names a fault of the connection, and the remedy.
func (k *Kafka) Check() error {
	switch {
	case len(k.Brokers) == 0:
		return errors.New("brokers is missing: write a list such as [kafka-1:9092]")
	case len(k.Brokers) > brokersMax:
		return fmt.Errorf("it has %d brokers, and may have at most %d; any broker names the others", len(k.Brokers), brokersMax)
	}
	for _, b := range k.Brokers {
		if !isAddress(b) {
			return fmt.Errorf("brokers: %.100q is not an address such as kafka-1:9092", b)
		}
	}
	return errors.Join(k.Security.check(), k.SASL.check())
}

func (s *KafkaSASL) check() error {
	if s == nil {
		return nil
	}
	known := false
	for _, m := range KafkaMechanisms {
		known = known || s.Mechanism == m
	}
	switch {
	case !known:
		return fmt.Errorf("sasl.mechanism: %.40q is none of %s", s.Mechanism, strings.Join(KafkaMechanisms, ", "))
	case s.User == "" || s.Password == nil || strings.ContainsAny(s.User, "\x00\r\n"):
		return errors.New("sasl needs user, and password as {secret: NAME}")
	}
	return isSecret("sasl.password", s.Password)
}

// Secrets returns the texts of a connection that are secrets. They hold plain texts only after the connection
// was resolved. Some may be nil.
func (k *Kafka) Secrets() []*secret.Text {
	all := []*secret.Text{k.Key}
	if k.SASL != nil {
		all = append(all, k.SASL.Password)
	}
	return all
}

// KafkaInput is the input of the source kafka.
type KafkaInput struct {
	Topic string `json:"topic"`
	Value string `json:"value"` // json | text | base64: what event.value is
	// Isolation is read_committed or read_uncommitted.
	Isolation string `json:"isolation"`
	// By is ByOffsets if an event names a range of offsets of each partition. It is "" if each record is an
	// event.
	By string `json:"by,omitempty"`
	// Every is the time in milliseconds between two looks for offsets, and OffsetsMax bounds the offsets of
	// an event. Both belong to ByOffsets.
	Every      int64 `json:"every_ms,omitempty"`
	OffsetsMax int64 `json:"max_offsets,omitempty"`
}

// Values of the key by of a trigger. ByRecords is the default.
const (
	ByRecords = "records"
	ByOffsets = "offsets"
)

// Values of KafkaInput.Isolation.
const (
	ReadCommitted   = "read_committed"
	ReadUncommitted = "read_uncommitted"
)

// Place returns the word for a topic, and the name of the topic that is read.
func (k *KafkaInput) Place() (word, name string) { return "topic", k.Topic }

// Read returns the part that determines what the source reads.
func (k *KafkaInput) Read() any { return KafkaInput{Topic: k.Topic} }
