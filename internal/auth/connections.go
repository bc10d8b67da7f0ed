package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// ConnectionsDefault is how many connections of one address are served that have shown no valid credential.
	ConnectionsDefault = 64
	// turnMax is how long a connection beyond that waits until one before it shows a credential or ends.
	turnMax = 10 * time.Second
	// turnsMax bounds the connections that wait, of all addresses. More are closed at once.
	turnsMax = 2048
)

var errTurn = errors.New("too many connections of this address have shown no credential")

// Connections is a listener that bounds, per address, the connections that have shown no valid credential. A
// connection that shows one counts no more, so any number of workers may come from one address. A connection
// beyond the bound is not read until it is its turn; one that is idle makes room for it.
type Connections struct {
	net.Listener
	max    int
	closed atomic.Int64

	mu      sync.Mutex // protects following fields
	from    map[addressPrefix]*strangers
	waiting int
}

// strangers are the connections of one address that have shown no valid credential.
type strangers struct {
	open  int
	idle  []*conn // of those that are open; the longest idle first
	turns []*conn // that wait, in the order in which they came
}

// NewConnections bounds what a listener accepts.
func NewConnections(l net.Listener, limit int) *Connections {
	return &Connections{Listener: l, max: limit, from: map[addressPrefix]*strangers{}}
}

// Closed is how many connections were closed because too many of their address had shown no credential.
func (c *Connections) Closed() int64 { return c.closed.Load() }

type connState int

const (
	connWaits connState = iota
	connCounts
	connTrusted
	connClosed
)

// conn is one connection.
type conn struct {
	net.Conn
	of      *Connections
	address addressPrefix
	let     atomic.Bool   // it may be read
	turn    chan struct{} // closed when it may, or is closed

	trusted atomic.Bool
	state   connState // protected by of.mu, as the field below
	idle    bool
}

// Accept implements net.Listener.
func (c *Connections) Accept() (net.Conn, error) {
	for {
		nc, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		k := &conn{Conn: nc, of: c, address: addressOf(nc.RemoteAddr().String()), turn: make(chan struct{})}
		if c.arrived(k) {
			return k, nil
		}
		c.closed.Add(1)
		_ = nc.Close() // nobody has read from it
	}
}

// arrived has a connection counted, or wait for its turn; false: neither.
func (c *Connections) arrived(k *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.from[k.address]
	if s == nil {
		s = &strangers{}
		c.from[k.address] = s
	}
	if s.open >= c.max && len(s.idle) > 0 {
		c.end(s, s.idle[0])
	}
	switch {
	case s.open < c.max:
		s.open++
		k.state = connCounts
		k.let.Store(true)
	case c.waiting >= turnsMax:
		return false
	default:
		c.waiting++
		s.turns = append(s.turns, k)
	}
	return true
}

// end closes a connection that is idle. The caller holds the mutex.
func (c *Connections) end(s *strangers, k *conn) {
	s.unidle(k)
	s.open--
	k.state = connClosed
	c.closed.Add(1)
	_ = k.Conn.Close() // its peer opens another
}

func (s *strangers) unidle(k *conn) {
	if k.idle {
		k.idle = false
		s.idle = slices.DeleteFunc(s.idle, func(o *conn) bool { return o == k })
	}
}

// leave takes a connection out of the count, and lets the next one in. The caller holds the mutex.
func (c *Connections) leave(k *conn, to connState) {
	s := c.from[k.address]
	switch was := k.state; was {
	case connWaits:
		s.turns = slices.DeleteFunc(s.turns, func(o *conn) bool { return o == k })
		c.waiting--
		close(k.turn)
	case connCounts:
		s.unidle(k)
		s.open--
	default:
		if to == connClosed {
			k.state = to
		}
		return
	}
	k.state = to
	c.next(s)
	if s.open == 0 && len(s.turns) == 0 {
		delete(c.from, k.address)
	}
}

// next lets in a connection that waits, if there is room. The caller holds the mutex.
func (c *Connections) next(s *strangers) {
	if s.open >= c.max || len(s.turns) == 0 {
		return
	}
	k := s.turns[0]
	s.turns = s.turns[1:]
	c.waiting--
	s.open++
	k.state = connCounts
	k.let.Store(true)
	close(k.turn)
}

// State is for http.Server.ConnState: a connection that is idle makes room for another.
func (c *Connections) State(nc net.Conn, to http.ConnState) {
	k := connOf(nc)
	if k == nil || k.trusted.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.state != connCounts {
		return
	}
	s := c.from[k.address]
	s.unidle(k)
	if k.idle = to == http.StateIdle; k.idle {
		s.idle = append(s.idle, k)
	}
	if k.idle && len(s.turns) > 0 {
		c.end(s, s.idle[0])
		c.next(s)
	}
}

type connKey struct{}

// Context is for http.Server.ConnContext: the gate finds the connection of a request by it.
func (c *Connections) Context(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connOf(nc))
}

func connOf(nc net.Conn) *conn {
	if t, is := nc.(*tls.Conn); is {
		nc = t.NetConn()
	}
	k, _ := nc.(*conn)
	return k
}

// trust says that a connection has shown a valid credential.
func (k *conn) trust() {
	if k == nil || k.trusted.Swap(true) {
		return
	}
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	k.of.leave(k, connTrusted)
}

// Read waits for the connection's turn before it reads for the first time.
func (k *conn) Read(p []byte) (int, error) {
	if !k.let.Load() {
		if err := k.wait(); err != nil {
			return 0, err
		}
	}
	return k.Conn.Read(p)
}

func (k *conn) wait() error {
	timer := time.NewTimer(turnMax)
	defer timer.Stop()
	select {
	case <-k.turn:
	case <-timer.C:
		if k.let.Load() {
			break
		}
		k.of.closed.Add(1)
		return errTurn
	}
	if !k.let.Load() {
		return net.ErrClosed
	}
	// The deadline that was set for the header began when the connection came.
	return k.Conn.SetReadDeadline(time.Now().Add(turnMax))
}

// CloseWrite lets net/http end an answer before the connection, so that a client that still sends gets to
// read it.
func (k *conn) CloseWrite() error {
	half, is := k.Conn.(interface{ CloseWrite() error })
	if !is {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// ReadFrom implements io.ReaderFrom: files go from the disk to the network without a copy in this process.
func (k *conn) ReadFrom(r io.Reader) (int64, error) {
	if from, is := k.Conn.(io.ReaderFrom); is {
		return from.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{k.Conn}, r)
}

// Close implements net.Conn.
func (k *conn) Close() error {
	k.of.mu.Lock()
	k.of.leave(k, connClosed)
	k.of.mu.Unlock()
	return k.Conn.Close()
}
