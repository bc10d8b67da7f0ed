package registrytest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Link is a network between a client and a server, which a test can cut.
type Link struct {
	Address string

	mu    sync.Mutex // protects following fields
	cut   bool
	conns map[net.Conn]bool
}

// NewLink makes a link to a server. The test ends it.
func NewLink(t testing.TB, to string) *Link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &Link{Address: l.Addr().String(), conns: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = l.Close(); k.Cut(true) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go k.carry(c, to)
		}
	}()
	return k
}

// carry copies both ways until one side ends. It answers nothing while the link is cut.
func (k *Link) carry(c net.Conn, to string) {
	defer c.Close()
	s, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer s.Close()
	k.mu.Lock()
	cut := k.cut
	k.conns[c] = true
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		delete(k.conns, c)
		k.mu.Unlock()
	}()
	if cut {
		return
	}
	go func() { _, _ = io.Copy(s, c); _ = s.Close() }()
	_, _ = io.Copy(c, s)
}

// Cut cuts the link, or mends it. Its connections end.
func (k *Link) Cut(cut bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut = cut
	for c := range k.conns {
		_ = c.Close()
	}
}
