//go:build linux && !race

package home_test

import (
	"flag"
	"fmt"
	"syscall"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/home"
)

var idleFlag = flag.Duration("idle", 10*time.Second, "how long the workers of BenchmarkIdleCrowd are idle")

// steady sets the default heartbeat of a cluster.
func steady(c *home.Config) { c.Beat = 5 * time.Second }

// used returns the processor time of this process. It includes the node, all workers, and both ends of their
// connections.
func used(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// gather attaches workers to one node, and returns how long that took.
func gather(b *testing.B, workers int) (*town, *crowd, time.Duration) {
	b.Helper()
	tn := newTown(b, 1, steady)
	began := time.Now()
	c := tn.crowd(tn.nodes[0], workers, 10)
	close(c.open)
	tn.until("every worker is attached", func() bool { return c.attached.Load() == int64(workers) })
	return tn, c, time.Since(began)
}

// BenchmarkCrowd attaches workers of ten slots to one node, each over its own connections. They run tasks
// that do nothing.
func BenchmarkCrowd(b *testing.B) {
	for _, v := range []struct{ workers, tasks int }{{50, 5000}, {1000, 5000}, {3000, 50_000}} {
		b.Run(fmt.Sprintf("workers=%d/tasks=%d", v.workers, v.tasks), func(b *testing.B) {
			tn, c, joined := gather(b, v.workers)
			w := tn.apply("w", places(100, dag.Anywhere)...)
			for b.Loop() {
				done, cpu, began := c.done.Load(), used(b), time.Now()
				var all []dag.RunID
				for range v.tasks / 100 {
					all = append(all, tn.submit(w))
				}
				tn.until("all tasks have ended", func() bool { return c.done.Load()-done >= int64(v.tasks) && tn.ended(all) })
				b.ReportMetric(time.Since(began).Seconds(), "tasks-s")
				b.ReportMetric((used(b) - cpu).Seconds(), "tasks-cpu-s")
			}
			b.ReportMetric(joined.Seconds(), "join-s") // the loop discards metrics that are reported before it
			b.ReportMetric(float64(tn.nodes[0].h.Stats.Lost.Load()), "lost")
			b.ReportMetric(float64(c.refused.Load()), "refused")
		})
	}
}

// BenchmarkIdleCrowd measures the part of a core that idle workers cost, including the workers themselves.
func BenchmarkIdleCrowd(b *testing.B) {
	gather(b, 1000)
	for b.Loop() {
		cpu := used(b)
		time.Sleep(*idleFlag) // the measured time
		b.ReportMetric(100*(used(b)-cpu).Seconds()/idleFlag.Seconds(), "%-of-a-core")
	}
}
