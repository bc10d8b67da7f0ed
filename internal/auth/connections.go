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
	// ConnectionsDefault bounds the open connections of one address that have shown no valid credential.
	ConnectionsDefault = 64
	// ConnectionsOfAll bounds the open connections of all addresses together that have shown no valid
	// credential. One costs about 48 KiB, so all of them cost about 200 MiB.
	ConnectionsOfAll = 4096
	// turnMax bounds how long a connection beyond the bound of its address waits for its turn.
	turnMax = 10 * time.Second
	// turnsMax bounds the waiting connections of all addresses. Further connections are closed at once.
	turnsMax = 2048
)

var errTurn = errors.New("too many connections from this address have shown no credential")

// Connections is a listener that bounds the connections that have shown no valid credential, per address and
// of all addresses together. A connection that shows a credential no longer counts, so any number of workers
// may come from one address.
//
// If an address has reached its bound, the listener closes an idle connection of this address in favour of
// the new one. If none is idle, the new connection waits. The listener reads nothing from it until another
// connection of its address ends or shows a credential. If the bound of all addresses is reached, the
// listener closes the connection that has been without a request for the longest time. If all have a
// request under way, it closes the one with the oldest request. So a flood from many addresses locks no
// caller out. If an address has lost its last connection in this way and has waiting ones, its first
// waiting connection comes in.
type Connections struct {
	net.Listener
	max, all int
	closed   atomic.Int64

	mu      sync.Mutex // protects following fields
	from    map[addressPrefix]*strangers
	waiting int
	open    int       // the open connections of all addresses
	quiet   list.List // list of *conn without a request in progress; the longest quiet first
	active  list.List // list of *conn with a request in progress; the oldest request first
	ready   list.List // list of *strangers: addresses that may serve a waiting connection; the longest ready first
}

// strangers are the connections of one address that have shown no valid credential.
type strangers struct {
	open  int
	idle  []*conn       // open connections that have had a request; the longest idle first
	turns []*conn       // waiting connections, in the order of their arrival
	ready *list.Element // the element in Connections.ready; nil if the address is not in the list
}

// NewConnections bounds the connections that a listener accepts: at most limit of one address, and at most
// all of all addresses together.
func NewConnections(l net.Listener, limit, all int) *Connections {
	return &Connections{Listener: l, max: limit, all: all, from: map[addressPrefix]*strangers{}}
}

// Closed returns the number of connections that the listener closed because too many had shown no
// credential.
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
	let     atomic.Bool   // the connection may be read
	turn    chan struct{} // closed when the connection may be read, or is closed

	trusted atomic.Bool
	state   connState // protected by of.mu, as are the fields below
	idle    bool
	in      *list.List    // the list of.quiet or of.active that contains the connection; nil if neither
	at      *list.Element // the connection's element of the list in
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
		_ = nc.Close() // no byte was read from the connection
	}
}

// arrived counts a new connection. If there is no room for it, the connection waits for its turn. arrived
// returns false if no further connection can wait, either.
func (c *Connections) arrived(k *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.of(k.address)
	if s.open >= c.max && len(s.idle) > 0 {
		c.end(s.idle[0])
	}
	if s.open >= c.max || len(s.turns) > 0 { // waiting connections come first
		if c.waiting >= turnsMax {
			return false
		}
		c.waiting++
		s.turns = append(s.turns, k)
		c.settle(s)
		if s.open < c.max {
			letIn(c, s, nil)
		}
		return true
	}
	letIn(c, s, k)
	return true
}

// letIn lets in a connection of an address. If there is no room, it first closes the connections that have
// been without a request for the longest time. If k is nil, it lets in the first waiting connection of s. If
// an address loses its last connection in this way, its first waiting connection is let in, too. The caller
// holds the mutex.
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

// settle updates, for an address, whether it has both room and waiting connections. It must be called after
// each change of either. The caller holds the mutex.
func (c *Connections) settle(s *strangers) {
	switch is := s.open < c.max && len(s.turns) > 0; {
	case is && s.ready == nil:
		s.ready = c.ready.PushBack(s)
	case !is && s.ready != nil:
		c.ready.Remove(s.ready)
		s.ready = nil
	}
}

// tidy removes an address without connections.
func (c *Connections) tidy(a addressPrefix) {
	if s := c.from[a]; s != nil && s.open == 0 && len(s.turns) == 0 {
		delete(c.from, a)
	}
}

// count marks a connection as readable, and counts it. The caller holds the mutex.
func (c *Connections) count(k *conn) {
	s := c.of(k.address)
	s.open++
	c.open++
	c.settle(s)
	k.state = connCounts
	k.move(&c.quiet)
	k.let.Store(true)
}

// uncount reverses count. The caller holds the mutex.
func (c *Connections) uncount(k *conn, to connState) {
	s := c.from[k.address]
	s.unidle(k)
	k.move(nil)
	s.open--
	c.open--
	c.settle(s)
	k.state = to
}

// move puts a connection at the end of a list. If to is nil, the connection is in no list. The caller holds
// the mutex.
func (k *conn) move(to *list.List) {
	if k.in != nil {
		k.in.Remove(k.at)
	}
	if k.in = to; to != nil {
		k.at = to.PushBack(k)
	}
}

// end closes a counted connection. The caller holds the mutex.
func (c *Connections) end(k *conn) {
	c.uncount(k, connClosed)
	c.tidy(k.address)
	c.closed.Add(1)
	_ = k.Conn.Close() // the client opens another connection
}

func (s *strangers) unidle(k *conn) {
	if k.idle {
		k.idle = false
		s.idle = slices.DeleteFunc(s.idle, func(o *conn) bool { return o == k })
	}
}

// leave removes a connection from the count, and lets the next ones in. The caller holds the mutex.
func (c *Connections) leave(k *conn, to connState) {
	s := c.from[k.address]
	switch was := k.state; was {
	case connWaits:
		s.turns = slices.DeleteFunc(s.turns, func(o *conn) bool { return o == k })
		c.waiting--
		c.settle(s)
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
	for c.open < c.all && c.ready.Len() > 0 { // addresses take turns
		c.next(c.ready.Front().Value.(*strangers))
	}
	c.tidy(k.address)
}

// next lets in the connection of an address that has waited longest, if there is room. The caller holds the
// mutex.
func (c *Connections) next(s *strangers) {
	if s.open >= c.max || c.open >= c.all || len(s.turns) == 0 {
		return
	}
	k := s.turns[0]
	s.turns = s.turns[1:]
	c.waiting--
	if s.ready != nil {
		c.ready.MoveToBack(s.ready)
	}
	c.count(k)
	close(k.turn)
}

// State is for http.Server.ConnState. It records whether a connection has an open request.
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

// Context is for http.Server.ConnContext. It stores the connection of a request in the context, where the
// gate finds it.
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

// trust records that a connection has shown a valid credential.
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
	// The deadline of the header began when the connection arrived.
	return k.Conn.SetReadDeadline(time.Now().Add(turnMax))
}

// CloseWrite lets net/http finish an answer before it closes the connection. So a client that still sends
// can read the answer.
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
