// Package kafka reads topics of Apache Kafka. It assigns the partitions to itself and uses no consumer group.
// The row of the trigger holds the offsets. They change in the same transaction that starts the runs.
package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/feed"
	"skein.dev/skein/plus/stream"
)

// Bounds on the fetched and buffered records, in bytes.
const (
	fetchMax     = 8 << 20
	partitionMax = 2 << 20
	// answerMax bounds an answer of a broker, because a broker could announce an answer of any size.
	answerMax = 64 << 20
)

// callMax bounds a request, and retryMax its repetitions. retryMax is shorter, because the error of the last
// repetition says what is wrong, but the error of an ended context does not.
const (
	callMax  = 20 * time.Second
	retryMax = 6 * time.Second
)

// options returns the options of a client for the given Start.
func options(start *feed.Start) ([]kgo.Opt, error) {
	var c broker.Kafka
	if err := stream.Read(start, &c, nil); err != nil {
		return nil, err
	}
	_, dial, _, err := stream.Dialers(start, &c.Security)
	if err != nil {
		return nil, err
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...), kgo.ClientID("skein"), kgo.Dialer(dial),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(fetchMax), kgo.FetchMaxPartitionBytes(partitionMax), kgo.BrokerMaxReadBytes(answerMax),
		// A new partition is read only when the current fetch ends, so a fetch must be short.
		kgo.FetchMaxWait(500 * time.Millisecond), kgo.MaxConcurrentFetches(2), kgo.RetryTimeout(retryMax), kgo.RequestTimeoutOverhead(retryMax),
		kgo.DisableClientMetrics(), kgo.MetadataMaxAge(30 * time.Second), kgo.MetadataMinAge(time.Second),
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
	return nil, stream.Permanent("sasl.mechanism %.40q is not known", s.Mechanism)
}
