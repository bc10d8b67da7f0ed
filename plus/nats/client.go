// Package nats reads NATS JetStream streams. The server keeps no position for it. The row of the trigger
// holds the sequence number of the next message. It changes in the same transaction that starts the runs.
package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/feed"
	"skein.dev/skein/plus/stream"
)

// callMax bounds a request to the servers.
const callMax = 5 * time.Second

// dialer opens only connections that the egress rules allow. TLS begins after the server's first message, so
// the library adds it later.
type dialer struct {
	dial   stream.Dial
	mu     sync.Mutex // protects failed
	failed error      // error of the last connection, because the library does not return it
}

// Dial implements client.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callMax)
	defer cancel()
	conn, err := d.dial(ctx, network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = err
	return conn, err
}

// why returns an error of the library with its cause.
func (d *dialer) why(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed != nil && errors.Is(err, client.ErrNoServers) {
		return d.failed
	}
	return err
}

// connect connects to one of the servers. It calls the function again after each reconnection.
func connect(start *feed.Start, again func()) (*client.Conn, jetstream.JetStream, error) {
	var c broker.NATS
	if err := stream.Read(start, &c, nil); err != nil {
		return nil, nil, err
	}
	dial, _, secured, err := stream.Dialers(start, &c.Security)
	if err != nil {
		return nil, nil, err
	}
	dials := &dialer{dial: dial}
	opts := []client.Option{client.Name("skein"), client.SetCustomDialer(dials), client.SkipHostLookup(), client.Timeout(callMax),
		client.MaxReconnects(-1), client.ReconnectWait(time.Second), client.NoEcho(), client.PingInterval(10 * time.Second), client.MaxPingsOutstanding(2),
		client.ReconnectHandler(func(*client.Conn) { again() })}
	if secured != nil {
		opts = append(opts, client.Secure(secured))
	}
	switch {
	case c.Credentials != nil:
		opts = append(opts, client.UserCredentialBytes([]byte(c.Credentials.Plain)))
	case c.Token != nil:
		opts = append(opts, client.Token(c.Token.Plain))
	case c.User != "":
		opts = append(opts, client.UserInfo(c.User, stream.Plain(c.Password)))
	}
	var servers []string
	for _, address := range c.Servers {
		servers = append(servers, "nats://"+address)
	}
	nc, err := client.Connect(strings.Join(servers, ","), opts...)
	if err != nil {
		return nil, nil, fmt.Errorf("the servers %s cannot be used: %w", strings.Join(c.Servers, ", "), dials.why(err))
	}
	js, err := jetstream.New(nc)
	if c.Domain != "" {
		js, err = jetstream.NewWithDomain(nc, c.Domain)
	}
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, js, nil
}

// Test signs in and reads the account.
func Test(ctx context.Context, start *feed.Start) (found string, err error) {
	nc, js, err := connect(start, func() {})
	if err != nil {
		return "", err
	}
	defer nc.Close()
	is, err := js.AccountInfo(ctx)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) || errors.Is(err, client.ErrNoResponders):
		return "", errors.New("the server answers, but JetStream is not enabled for this account")
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("a server of NATS %s with JetStream; the account has %d streams", nc.ConnectedServerVersion(), is.Streams), nil
}
