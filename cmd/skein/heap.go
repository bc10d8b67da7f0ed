package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// A server without large runs has about 10 MiB of live memory. With Go's default the collector would then run
// after every further 10 MiB. Under load that is several times a second, and took a tenth of the processor
// time of a start. So a server lets its heap grow to heapFloor before a collection. A larger heap is
// collected as usual.
const (
	heapFloor = 64 << 20
	// percentUsual is Go's default for GOGC. percentMost bounds the value that paceHeap sets.
	percentUsual, percentMost = 100, 800
)

// percentOf returns the value of GOGC with which a heap of this number of live bytes grows to heapFloor, or
// to twice its size if that is more.
func percentOf(live uint64) int {
	if live == 0 {
		return percentMost
	}
	free := int64(heapFloor) - int64(min(live, heapFloor))
	return int(min(max(free*100/int64(live), percentUsual), percentMost))
}

// paceHeap sets GOGC after each collection, as long as the process lives. It does not change a value or a
// memory limit that the user has set.
func paceHeap() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	type cycle struct{ _ *byte }
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	set := percentUsual
	var collected func(c *cycle)
	collected = func(c *cycle) { // this runs after each collection, on the goroutine of finalizers
		metrics.Read(sample)
		if percent := percentOf(sample[0].Value.Uint64()); percent*10 < set*9 || percent*10 > set*11 {
			debug.SetGCPercent(percent)
			set = percent
		}
		runtime.SetFinalizer(c, collected)
	}
	runtime.SetFinalizer(new(cycle), collected)
}
