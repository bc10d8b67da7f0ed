//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The following are the effects of a tap on all data that passes it.
const (
	tapOpen int32 = iota
	tapShut       // nothing arrives in either direction, without an error
	tapUp         // the data of the caller does not arrive
	tapDown       // answers do not arrive
	tapSlow       // all data is delayed by 100 ms
)

// tapWrites is the length in bytes above which data that a node sends at once is treated as a writing
// transaction. Reads and heartbeats are shorter.
const tapWrites = 200

// tap is a proxy between one node and its database, or between a node and its callers.
type tap struct {
	l     net.Listener
	to    func() string
	mode  atomic.Int32
	noEnd atomic.Bool // the end of the next transaction is lost, and both connections are closed
	noAck atomic.Bool // the answer to the next transaction is lost, and the connection of the node is closed
	wg    sync.WaitGroup
}

func newTap(t *testing.T, to func() string) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{l: l, to: to}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				p.wg.Go(func() { p.serve(c) })
			}
		}
	})
	t.Cleanup(func() { _ = l.Close() }) // open connections end with node and database
	return p
}

func (p *tap) url() string {
	return fmt.Sprintf("postgres://skein@%s/postgres?sslmode=disable", p.l.Addr())
}

func (p *tap) serve(node net.Conn) {
	defer node.Close()
	db, err := net.Dial("tcp", p.to())
	if err != nil {
		return
	}
	defer db.Close()
	var mute atomic.Bool
	var down sync.WaitGroup
	defer down.Wait()
	down.Go(func() {
		defer node.Close()
		p.carry(node, db, tapDown, func(b []byte) bool { return !mute.Load() || !bytes.Contains(b, []byte{'Z', 0, 0, 0, 5}) })
	})
	p.carry(db, node, tapUp, func(b []byte) bool {
		if len(b) > tapWrites && bytes.HasSuffix(b, []byte{'S', 0, 0, 0, 4}) { // the end of a transaction
			if p.noEnd.CompareAndSwap(true, false) {
				return false
			}
			if p.noAck.CompareAndSwap(true, false) {
				mute.Store(true)
			}
		}
		return true
	})
	_ = db.Close()
}

// carry passes on data as the mode allows, until see returns false.
func (p *tap) carry(to, from net.Conn, way int32, see func([]byte) bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || !see(buf[:n]) {
			return
		}
		for m := p.mode.Load(); m == tapShut || m == way; m = p.mode.Load() {
			time.Sleep(5 * time.Millisecond)
		}
		if p.mode.Load() == tapSlow {
			time.Sleep(100 * time.Millisecond)
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
