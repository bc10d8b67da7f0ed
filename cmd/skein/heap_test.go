package main

import (
	"testing"
	"time"
)

func TestPercentOf(t *testing.T) {
	for live, want := range map[uint64]int{0: 800, 1 << 20: 800, 8 << 20: 700, 16 << 20: 300, 32 << 20: 100, 48 << 20: 100, 64 << 20: 100, 1 << 40: 100} {
		if got := percentOf(live, 32<<20, time.Second); got != want {
			t.Errorf("%d MiB live under load: %d, want %d", live>>20, got, want)
		}
		if got := percentOf(live, 32<<20, time.Minute); got != percentIdle {
			t.Errorf("%d MiB live, idle: %d, want 50", live>>20, got)
		}
	}
}
