package postgres_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// mode is the fault of a proxy in the next transaction.
type mode int

const (
	pass   mode = iota
	cut         // the end of the transaction never reaches the database, and both connections are closed
	hold        // the commit does not arrive, and no side notices until the proxy passes it on
	silent      // the database gets the commit, and its answer never arrives; then the client's connection is closed
)

// proxy passes data between a store and its database.
type proxy struct {
	listener net.Listener
	to       string
	mu       sync.Mutex // protects following fields
	next     mode
	release  chan struct{}
	done     chan struct{} // closed when the mode was applied
	wg       sync.WaitGroup
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: to, release: make(chan struct{}), done: make(chan struct{})}
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				p.wg.Go(func() { p.serve(client) })
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		close(p.release)
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// arm sets the fault for the next transaction.
func (p *proxy) arm(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = m
}

// disarm returns the fault for a transaction that ends now, and resets it.
func (p *proxy) disarm() mode {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.next
	p.next = pass
	return m
}

// syncMessage is the message that ends a transaction.
var syncMessage = []byte{'S', 0, 0, 0, 4}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	backend, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer backend.Close()
	silence := make(chan struct{})
	var back sync.WaitGroup
	defer back.Wait()
	defer backend.Close()
	back.Go(func() {
		defer client.Close()
		p.answers(client, backend, silence)
	})
	buf := make([]byte, 64<<10)
	var kept []byte // the last bytes are held back until the message is complete
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		kept = append(kept, buf[:n]...)
		send := len(kept)
		if bytes.HasSuffix(kept, syncMessage) {
			switch p.disarm() {
			case cut:
				_, _ = backend.Write(kept[:len(kept)-len(syncMessage)])
				return
			case hold:
				_, _ = backend.Write(kept[:len(kept)-len(syncMessage)])
				<-p.release
				return
			case silent:
				close(silence)
			}
		}
		if _, err := backend.Write(kept[:send]); err != nil {
			return
		}
		kept = kept[:0]
	}
}

// answers passes on the answers of the database. Once silence is closed, it reads up to the end of a
// transaction and closes the connection.
func (p *proxy) answers(client io.Writer, backend io.Reader, silence chan struct{}) {
	buf := make([]byte, 64<<10)
	for {
		n, err := backend.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-silence:
			if bytes.Contains(buf[:n], []byte{'Z', 0, 0, 0, 5}) {
				return
			}
			continue
		default:
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}
