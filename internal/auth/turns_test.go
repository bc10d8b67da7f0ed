package auth

import (
	"net"
	"testing"
)

// arriving returns a function that makes connections from an address.
func arriving(t *testing.T, c *Connections) func(address string) *conn {
	return func(address string) *conn {
		there, here := net.Pipe()
		t.Cleanup(func() { _ = there.Close() })
		k := &conn{Conn: here, of: c, address: addressOf(address), turn: make(chan struct{})}
		if !c.arrived(k) {
			t.Fatalf("no room for %s", address)
		}
		return k
	}
}

// TestConnectionsTakeTurns: when a connection ends, its room goes to the address that has waited the
// longest. The address of the ended connection does not take precedence.
func TestConnectionsTakeTurns(t *testing.T) {
	c := NewConnections(nil, 1, 2)
	at := arriving(t, c)
	const one, two, three = "10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"
	at(one)
	first := at(one)
	at(two)
	second := at(two)
	ends := at(three) // takes the room of both; one waiting connection comes in
	third := at(three)
	if !first.let.Load() || second.let.Load() || third.let.Load() {
		t.Fatalf("before: %v %v %v", first.let.Load(), second.let.Load(), third.let.Load())
	}
	if err := ends.Close(); err != nil {
		t.Fatal(err)
	}
	if !second.let.Load() || third.let.Load() {
		t.Errorf("after the end of a connection: %v %v", second.let.Load(), third.let.Load())
	}
	first.trust()
	if !third.let.Load() || c.open != 2 || c.waiting != 0 || c.ready.Len() != 0 {
		t.Errorf("after a credential: %v, %d count, %d wait, %d ready", third.let.Load(), c.open, c.waiting, c.ready.Len())
	}
}

// TestConnectionsOfAnEvictedAddress: if an address loses its last connection to others, its waiting
// connection comes in. It does not wait for an event that cannot happen. Waiting connections come in before
// a new one.
func TestConnectionsOfAnEvictedAddress(t *testing.T) {
	c := NewConnections(nil, 2, 2)
	at := arriving(t, c)
	const one, two, three = "10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"
	first, second, waits, last := at(one), at(one), at(one), at(one)
	if waits.let.Load() || last.let.Load() {
		t.Fatal("more connections than the bound are read")
	}
	other := at(two)
	if first.state != connClosed || second.state != connCounts || !other.let.Load() || waits.let.Load() {
		t.Fatalf("an address with a connection left: %v %v", first.state, second.state)
	}
	// This closes the last connection of the first address. The end of the second address's connection makes
	// room for the waiting one.
	third := at(three)
	if second.state != connClosed || other.state != connClosed || !third.let.Load() || !waits.let.Load() {
		t.Fatalf("an address that has lost its last connection: its waiting one comes in: %v", waits.let.Load())
	}
	late := at(one)
	if !last.let.Load() || late.let.Load() {
		t.Errorf("a new connection comes before one that waits: %v %v", last.let.Load(), late.let.Load())
	}
	if c.open != 2 || c.waiting != 1 {
		t.Errorf("%d connections count, %d wait", c.open, c.waiting)
	}
}
