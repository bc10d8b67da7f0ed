package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"skein.dev/skein/internal/worker"
)

// A server without large runs has about 10 MiB of live memory. With Go's default the collector would then run
// after every further 10 MiB. Under load this happened several times a second, and took a tenth of the
// processor time of a start. So a server under load lets its heap grow to heapFloor before a collection. A
// larger heap is collected as usual, and the heap of an idle server earlier than usual.
const (
	heapFloor = 64 << 20
	// percentUsual is Go's default for GOGC. percentMost bounds the value that paceHeap sets, and percentIdle is
	// the value of an idle server.
	percentUsual, percentMost, percentIdle = 100, 800, 50
	// busyRate is the allocation in bytes per second from which a server is under load. An idle server
	// allocates less than a hundredth of it.
	busyRate = 4 << 20
	// limitedFrom is the limit of a cgroup from which the cgroup counts as unlimited. Version 1 says so by a
	// number near the largest one.
	limitedFrom = 1 << 60
	// settleAfter is the time after which a server that is ready returns the memory of its start.
	settleAfter = 10 * time.Second
)

// percentOf returns the value of GOGC for a heap of live bytes, after a time in which allocated bytes were
// allocated. Under load it lets the heap grow to heapFloor, or to twice its size if that is more.
func percentOf(live, allocated uint64, in time.Duration) int {
	if float64(allocated) < busyRate*in.Seconds() {
		return percentIdle
	}
	if live == 0 {
		return percentMost
	}
	free := int64(heapFloor) - int64(min(live, heapFloor))
	return int(min(max(free*100/int64(live), percentUsual), percentMost))
}

// ownPace reports whether the user has set a value or a memory limit of the collector.
func ownPace() bool {
	return os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != ""
}

// memoryLimit returns the memory limit of the collector for the limit of the cgroup: three quarters of it,
// because files in memory and the tasks count in the cgroup, too. ok is false if there is no limit.
func memoryLimit(cgroup int64) (limit int64, ok bool) {
	return cgroup / 4 * 3, cgroup < limitedFrom
}

// paceHeap sets GOGC after each collection, as long as the process lives, and a memory limit below that of
// the cgroup. It sets neither if the user has set GOGC or GOMEMLIMIT.
func paceHeap() {
	if ownPace() {
		return
	}
	if limit, ok := memoryLimit(worker.MemoryLimit()); ok {
		debug.SetMemoryLimit(limit)
	}
	type cycle struct{ _ *byte }
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	set, at, before := percentUsual, time.Now(), uint64(0)
	var collected func(c *cycle)
	collected = func(c *cycle) { // this runs after each collection, on the goroutine of finalizers
		metrics.Read(sample)
		live, all, now := sample[0].Value.Uint64(), sample[1].Value.Uint64(), time.Now()
		percent := percentOf(live, all-before, now.Sub(at))
		at, before = now, all
		if percent*10 < set*9 || percent*10 > set*11 {
			debug.SetGCPercent(percent)
			set = percent
		}
		runtime.SetFinalizer(c, collected)
	}
	runtime.SetFinalizer(new(cycle), collected)
}

// settle returns the memory that only the start needed to the system, some seconds after the start.
func settle() {
	time.AfterFunc(settleAfter, func() {
		if !ownPace() {
			debug.FreeOSMemory()
		}
		settlePages()
	})
}
