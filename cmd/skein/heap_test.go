package main

import (
	"math"
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

func TestMemoryLimit(t *testing.T) {
	if limit, ok := memoryLimit(512 << 20); limit != 384<<20 || !ok {
		t.Errorf("a cgroup of 512 MiB: %d MiB, %v", limit>>20, ok)
	}
	// Without a limit, cgroups of version 1 state the largest multiple of a page.
	for _, none := range []int64{math.MaxInt64, math.MaxInt64 &^ 4095} {
		if _, ok := memoryLimit(none); ok {
			t.Errorf("%d is a limit", none)
		}
	}
}
