// Package kafka reads topics of Apache Kafka. It assigns the partitions to itself, without a consumer group.
// The row of the trigger keeps the offsets, which change in the transaction of the runs.
package kafka

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/feed"
)

// Bounds of what is fetched and held, in bytes.
const (
	fetchMax     = 8 << 20
	partitionMax = 2 << 20
	// answerMax bounds an answer of a broker, which may say that its answer has any size.
	answerMax = 64 << 20
)

// callMax bounds a request, and retryMax its repetitions. The error of the last repetition tells the reason,
// and the error of a context that has ended does not.
const (
	callMax  = 20 * time.Second
	retryMax = 6 * time.Second
)

// options returns the options of a client for a start.
func options(start *feed.Start, with *broker.KafkaInput) ([]kgo.Opt, error) {
	var c broker.Kafka
	if json.Unmarshal(start.Connection, &c) != nil || len(c.Brokers) == 0 { // the error could show a secret
		return nil, errors.New("the source needs a connection of the type kafka")
	}
	var rules egress.Rules
	if err := json.Unmarshal(start.Egress, &rules); err != nil {
		return nil, errors.New("the rules of egress cannot be read")
	}
	dial, err := egress.Dialer(rules)
	if err != nil {
		return nil, err
	}
	key := ""
	if c.Key != nil {
		key = c.Key.Plain
	}
	secured, err := c.TLSConfig(key)
	if err != nil {
		return nil, err
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...), kgo.ClientID("skein"), kgo.Dialer(dialer(dial, secured)),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(fetchMax), kgo.FetchMaxPartitionBytes(partitionMax), kgo.BrokerMaxReadBytes(answerMax),
		// A partition that joins is read when the fetch that is under way ends.
		kgo.FetchMaxWait(500 * time.Millisecond), kgo.MaxConcurrentFetches(2), kgo.RetryTimeout(retryMax), kgo.RequestTimeoutOverhead(retryMax),
		kgo.DisableClientMetrics(), kgo.MetadataMaxAge(30 * time.Second), kgo.MetadataMinAge(time.Second),
	}
	if with.Isolation != broker.ReadUncommitted {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if s := c.SASL; s != nil {
		how, err := mechanism(s)
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.SASL(how))
	}
	return opts, nil
}

// dialer returns a dialler that uses TLS if secured is not nil.
func dialer(dial func(ctx context.Context, network, address string) (net.Conn, error), secured *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	if secured == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := secured.Clone()
		if own.ServerName, _, err = net.SplitHostPort(address); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		is := tls.Client(conn, own)
		if err := is.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return is, nil
	}
}

func mechanism(s *broker.KafkaSASL) (sasl.Mechanism, error) {
	password := s.Password.Plain
	switch s.Mechanism {
	case "plain":
		return plain.Auth{User: s.User, Pass: password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: s.User, Pass: password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: s.User, Pass: password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("sasl.mechanism %.40q is not known", s.Mechanism)
}
