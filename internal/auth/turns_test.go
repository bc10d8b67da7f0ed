package auth

import (
	"net"
	"testing"
)

// TestConnectionsOfAnEvictedAddress: a waiting connection whose address has lost its last connection to
// others comes in, and does not wait for an event that cannot come. Those that wait come before a new one.
func TestConnectionsOfAnEvictedAddress(t *testing.T) {
	c := NewConnections(nil, 2, 2)
	at := func(address string) *conn {
		there, here := net.Pipe()
		t.Cleanup(func() { _ = there.Close() })
		k := &conn{Conn: here, of: c, address: addressOf(address), turn: make(chan struct{})}
		if !c.arrived(k) {
			t.Fatalf("no room for %s", address)
		}
		return k
	}
	const one, two, three = "10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"
	first, second, waits, last := at(one), at(one), at(one), at(one)
	if waits.let.Load() || last.let.Load() {
		t.Fatal("more connections than the bound are read")
	}
	other := at(two)
	if first.state != connClosed || second.state != connCounts || !other.let.Load() || waits.let.Load() {
		t.Fatalf("an address with a connection left: %v %v", first.state, second.state)
	}
	// This closes the last one of the first address. That of the second makes room for the waiting one.
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
