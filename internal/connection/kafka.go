package connection

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"skein.dev/skein/internal/broker"
)

// Kafka is a cluster of Apache Kafka, or of a server that speaks its protocol.
type Kafka struct{ broker.Kafka }

func (k *Kafka) check() error { return k.Check() }

// use asks the first broker that can be reached which requests it knows. Every broker answers this before a
// client signs in, so the credentials are not tried.
func (k *Kafka) use(ctx context.Context, m *Means) (string, error) {
	key, err := m.text(ctx, k.Key)
	if err != nil {
		return "", err
	}
	cfg, err := k.TLSConfig(key)
	if err != nil {
		return "", err
	}
	var all []error
	for _, b := range k.Brokers {
		n, err := k.ask(ctx, m, b, cfg)
		if err == nil {
			said := fmt.Sprintf("%s is a broker with %d kinds of requests", b, n)
			if k.SASL != nil {
				said += "; a source tries the user and the password"
			}
			return said, nil
		}
		all = append(all, fmt.Errorf("%s: %w", b, err))
	}
	return "", errors.Join(all...)
}

// ask sends the request ApiVersions in version 0, and returns the number of kinds of requests in the answer.
func (k *Kafka) ask(ctx context.Context, m *Means, broker string, cfg *tls.Config) (kinds uint32, err error) {
	conn, err := m.Dial(ctx, "tcp", broker)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	at, _ := ctx.Deadline() // Config.Test sets it
	if err := conn.SetDeadline(at); err != nil {
		return 0, err
	}
	if cfg != nil {
		own := cfg.Clone()
		own.ServerName, _, _ = net.SplitHostPort(broker) // check has split it
		secured := tls.Client(conn, own)
		if err := secured.HandshakeContext(ctx); err != nil {
			return 0, err
		}
		conn = secured
	}
	const id = "skein"
	request := binary.BigEndian.AppendUint32(nil, uint32(10+len(id)))
	request = binary.BigEndian.AppendUint32(request, 18<<16)          // ApiVersions, version 0
	request = binary.BigEndian.AppendUint32(request, 1)               // the number of the request
	request = binary.BigEndian.AppendUint16(request, uint16(len(id))) // the name of the client
	if _, err := conn.Write(append(request, id...)); err != nil {
		return 0, err
	}
	var answer [14]byte // size, number of the request, error, number of kinds
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return 0, fmt.Errorf("what answers is no broker of Kafka, or wants TLS: %w", err)
	}
	size, number := binary.BigEndian.Uint32(answer[:]), binary.BigEndian.Uint32(answer[4:])
	if number != 1 || size < 10 || size > heardMax || binary.BigEndian.Uint16(answer[8:]) != 0 {
		return 0, errors.New("what answers is no broker of Kafka")
	}
	return binary.BigEndian.Uint32(answer[10:]), nil
}
