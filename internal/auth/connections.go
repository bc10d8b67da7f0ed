package auth

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
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
	// ConnectionsOfAll is how many connections of all addresses together are served that have shown no valid
	// credential. One costs about 48 KiB, so all of them cost about 200 MiB.
	ConnectionsOfAll = 4096
	// turnMax is how long a connection beyond the bound of its address waits for its turn.
	turnMax = 10 * time.Second
	// turnsMax bounds the waiting connections of all addresses. More are closed at once.
	turnsMax = 2048
)

var errTurn = errors.New("too many connections from this address have shown no credential")

// Connections is a listener that bounds the connections that have shown no valid credential, per address and
// of all addresses together. A connection that shows a credential no longer counts, so any number of workers
// may come from one address.
//
// If an address has reached its bound, an idle connection of this address is closed in favour of the new one.
// If none is idle, the new connection waits, and is not read until another one of its address ends or shows a
// credential. If the bound of all addresses is reached, the connection that has been without a request for
// the longest time is closed in favour of the new one. If all have a request under way, the one whose request
// is the oldest is closed. So a flood from many addresses locks no caller out. An address that has lost its
// last connection in this way, and has waiting ones, counts as new: its first waiting connection comes in.
type Connections struct {
	net.Listener
	max, all int
	closed   atomic.Int64

	mu      sync.Mutex // protects following fields
	from    map[addressPrefix]*strangers
	waiting int
	open    int       // of all addresses
	quiet   list.List // of *conn: those of them that have no request under way; the longest quiet first
	active  list.List // of *conn: the others; the oldest request first
}

// strangers are the connections of one address that have shown no valid credential.
type strangers struct {
	open  int
	idle  []*conn // open ones that have had a request; the longest idle first
	turns []*conn // waiting ones, in the order in which they came
}

// NewConnections bounds what a listener accepts: limit connections of one address, and all of all addresses
// together.
func NewConnections(l net.Listener, limit, all int) *Connections {
	return &Connections{Listener: l, max: limit, all: all, from: map[addressPrefix]*strangers{}}
}

// Closed returns the number of connections that were closed because too many had shown no credential.
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
	state   connState // protected by of.mu, as the fields below
	idle    bool
	in      *list.List    // of.quiet or of.active; nil: it is in none
	at      *list.Element // its place there
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
		_ = nc.Close() // nothing was read from it
	}
}

// arrived counts a new connection, or lets it wait for its turn. It returns false if there is no room for
// either.
func (c *Connections) arrived(k *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of(k.address)
	if s.open >= c.max && len(s.idle) > 0 {
		c.end(s.idle[0])
	}
	if s.open >= c.max || len(s.turns) > 0 { // those that wait come first
		if c.waiting >= turnsMax {
			return false
		}
		c.waiting++
		s.turns = append(s.turns, k)
		if s.open < c.max {
			letIn(c, s, nil)
		}
		return true
	}
	letIn(c, s, k)
	return true
}

// letIn closes the connections that have been without a request for the longest time until there is room for
// a connection of an address, and lets it in. k is nil for the first that waits. Addresses that have lost all
// of their connections get one of those that wait. The caller holds the mutex.
func letIn(c *Connections, s *strangers, k *conn) {
	lost := []*strangers(nil)
	for c.open+1+len(lost) > c.all && c.open > 0 {
		oldest := c.quiet.Front()
		if oldest == nil {
			oldest = c.active.Front()
		}
		of := c.from[oldest.Value.(*conn).address]
		if c.end(oldest.Value.(*conn)); of != s && of.open == 0 && len(of.turns) > 0 {
			lost = append(lost, of)
		}
	}
	if k != nil {
		c.count(k)
	} else {
		c.next(s)
	}
	for _, of := range lost {
		c.next(of)
	}
}

// of returns the connections of an address.
func (c *Connections) of(a addressPrefix) *strangers {
	s := c.from[a]
	if s == nil {
		s = &strangers{}
		c.from[a] = s
	}
	return s
}

// tidy forgets an address that has no connection left.
func (c *Connections) tidy(a addressPrefix) {
	if s := c.from[a]; s != nil && s.open == 0 && len(s.turns) == 0 {
		delete(c.from, a)
	}
}

// count lets a connection be read, and counts it. The caller holds the mutex.
func (c *Connections) count(k *conn) {
	c.of(k.address).open++
	c.open++
	k.state = connCounts
	k.move(&c.quiet)
	k.let.Store(true)
}

// uncount is the reverse of count. The caller holds the mutex.
func (c *Connections) uncount(k *conn, to connState) {
	s := c.from[k.address]
	s.unidle(k)
	k.move(nil)
	s.open--
	c.open--
	k.state = to
}

// move puts a connection at the end of one of the lists; nil: of none. The caller holds the mutex.
func (k *conn) move(to *list.List) {
	if k.in != nil {
		k.in.Remove(k.at)
	}
	if k.in = to; to != nil {
		k.at = to.PushBack(k)
	}
}

// end closes a connection that counts. The caller holds the mutex.
func (c *Connections) end(k *conn) {
	c.uncount(k, connClosed)
	c.tidy(k.address)
	c.closed.Add(1)
	_ = k.Conn.Close() // its peer opens another one
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
		k.state = to
	case connCounts:
		c.uncount(k, to)
	default:
		if to == connClosed {
			k.state = to
		}
		return
	}
	c.next(s)
	c.tidy(k.address)
}

// next lets the next waiting connection of an address in, if there is room. The caller holds the mutex.
func (c *Connections) next(s *strangers) {
	if s.open >= c.max || c.open >= c.all || len(s.turns) == 0 {
		return
	}
	k := s.turns[0]
	s.turns = s.turns[1:]
	c.waiting--
	c.count(k)
	close(k.turn)
}

// State is for http.Server.ConnState. It notes which connections have no request under way.
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
	if to == http.StateActive {
		k.move(&c.active)
	}
	if k.idle = to == http.StateIdle; !k.idle {
		return
	}
	s.idle = append(s.idle, k)
	k.move(&c.quiet)
	if len(s.turns) > 0 {
		c.end(s.idle[0])
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

// trust notes that a connection has shown a valid credential.
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
	// The deadline for the header began when the connection came.
	return k.Conn.SetReadDeadline(time.Now().Add(turnMax))
}

// CloseWrite lets net/http end an answer before the connection, so that a client that still sends can read
// it.
func (k *conn) CloseWrite() error {
	half, is := k.Conn.(interface{ CloseWrite() error })
	if !is {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Close implements net.Conn.
func (k *conn) Close() error {
	k.of.mu.Lock()
	k.of.leave(k, connClosed)
	k.of.mu.Unlock()
	return k.Conn.Close()
}
