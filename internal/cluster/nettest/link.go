//go:build linux

package nettest

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// packetMax is more than the largest packet of a device (1,500 bytes).
	packetMax = 2048
	// waitingMax bounds the packets that are delayed on one link. Further packets are lost, as in a real queue.
	waitingMax = 4096
)

// Link describes how packets are carried over a link. The zero value carries every packet without delay.
type Link struct {
	Cut   bool          // nothing arrives
	Loss  float64       // fraction of the packets that do not arrive, from 0 to 1
	Delay time.Duration // time that a packet takes
}

// way carries packets to one machine. Packets never overtake each other.
type way struct {
	to            *Machine
	carried, lost atomic.Int64
	waiting       chan delayed

	mu   sync.Mutex // protects the following fields; take holds it, so that packets keep their order
	link Link
	late int // packets that wait
}

// delayed is a packet, and the time at which it arrives.
type delayed struct {
	at     time.Time
	packet []byte
}

func newWay(to *Machine) *way {
	w := &way{to: to, waiting: make(chan delayed, waitingMax)}
	go w.deliver()
	return w
}

func (w *way) set(l Link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.link = l
}

// take loses a packet, passes it on at once, or keeps it until its time.
func (w *way) take(packet []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch l := w.link; {
	case l.Cut, l.Loss > 0 && rand.Float64() < l.Loss, w.late == waitingMax:
		w.lost.Add(1)
	case l.Delay == 0 && w.late == 0:
		w.pass(packet)
	default:
		w.late++
		w.waiting <- delayed{time.Now().Add(l.Delay), slices.Clone(packet)}
	}
}

// deliver passes on the packets that wait, each at its time.
func (w *way) deliver() {
	for d := range w.waiting {
		time.Sleep(time.Until(d.at))
		w.mu.Lock()
		w.late--
		w.pass(d.packet)
		w.mu.Unlock()
	}
}

func (w *way) pass(packet []byte) {
	if _, err := w.to.tun.Write(packet); err != nil {
		w.lost.Add(1) // the machine is gone
		return
	}
	w.carried.Add(1)
}

// close ends deliver. All calls of take must have returned.
func (w *way) close() { close(w.waiting) }
