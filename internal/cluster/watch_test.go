package cluster

import (
	"testing"
	"time"

	"skein.dev/skein/internal/store"
)

// TestWatch: silence is measured over successful reads only.
func TestWatch(t *testing.T) {
	const lag = 20 * time.Second
	w := newWatch(lag)
	at := time.Unix(1000, 0)
	beat := int64(1)
	see := func() { w.see([]store.Member{{Handler: 7, Beat: beat}, {Handler: 8, Beat: at.Unix()}}, at) }
	for range 40 { // 20 s in steps of half a second
		see()
		at = at.Add(500 * time.Millisecond)
	}
	if w.silent(7, lag, at) || w.silent(8, lag, at) {
		t.Fatal("dead after 20 s of a lag of 20 s")
	}
	see()
	at = at.Add(500 * time.Millisecond)
	if !w.silent(7, lag, at) || w.silent(8, lag, at) || w.silent(9, lag, at) {
		t.Fatal("7 was silent for more than 20 s, 8 was not, 9 was never there")
	}
	at = at.Add(10 * time.Minute) // the database was away
	see()
	if w.silent(7, lag, at) || w.silent(8, lag, at) {
		t.Fatal("an outage declared somebody dead")
	}
	beat++
	see()
	w.see([]store.Member{{Handler: 8, Beat: 1}}, at)
	if w.silent(7, lag, at.Add(time.Hour)) {
		t.Fatal("who is not listed any more is nobody's concern")
	}
}
