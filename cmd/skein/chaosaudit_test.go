//go:build linux

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	skein "skein.dev/skein/sdk"
)

// chaosRate is the least work, in attempts per second of faults; with less work, the test has shown nothing.
const chaosRate = 1.0

// tried is the record of an attempt. An end of 0 means that the attempt wrote no end.
type tried struct {
	token      int
	begin, end int64 // ns
}

// audit compares the records of the tasks, the acknowledged answers and the database.
func (c *chaos) audit(took time.Duration) {
	c.t.Helper()
	attempts, overlaps, longest := 0, 0, time.Duration(0)
	seen := map[string]map[string][]tried{} // by run and task
	for g := range c.needs {
		for run, tasks := range c.read(g) {
			seen[run] = tasks
			for task, list := range tasks {
				attempts += len(list)
				n, most := overlapping(list)
				overlaps += n
				longest = max(longest, most)
				for _, need := range c.needs[g][task] {
					if first := firstEnd(tasks[need]); first == 0 || list[0].begin < first {
						c.t.Errorf("run %s: %s began before %s had ended", run, task, need)
					}
				}
			}
		}
	}
	for id, g := range c.acked {
		run, err := c.members[0].client.Run(c.t.Context(), id)
		if c.lossy && errors.Is(err, skein.ErrNotFound) {
			c.gone = append(c.gone, id)
			continue
		}
		if err != nil {
			c.t.Errorf("run %s, which was acknowledged: %v", id, err)
			continue
		}
		if run.State != "succeeded" {
			why := "it does not say why"
			if run.Message != nil {
				why = *run.Message
			}
			c.t.Errorf("run %s, which was acknowledged, is %s: %s", id, run.State, why)
		}
		for task := range c.needs[g] {
			if firstEnd(seen[id][task]) == 0 {
				c.t.Errorf("run %s: task %s did not end", id, task)
			}
		}
	}
	c.verified()
	for _, w := range c.hands {
		w.stop()
	}
	for _, m := range c.members {
		m.stop()
	}
	for _, h := range c.homes() {
		h.until("its keeper has ended", func() bool { return keeperOf(h.data()) == 0 })
	}
	orphans := c.orphans()
	if orphans > 0 {
		c.t.Errorf("%d processes of tasks are left", orphans)
	}
	c.table(took, attempts, overlaps, longest, orphans)
	frozen := slices.ContainsFunc(slices.Collect(maps.Keys(c.faults)), func(name string) bool { return strings.Contains(name, "frozen") })
	// A frozen worker continues later, and only then ends attempts that other workers have taken over.
	if overlaps > 0 && !frozen && !c.lossy {
		c.t.Errorf("%d times two attempts of a task were there at once, for %v at most, and nobody was frozen", overlaps, longest)
	}
	if rate := float64(attempts) / took.Seconds(); rate < chaosRate || len(c.acked) == 0 {
		c.t.Errorf("invalid: %.1f attempts per second, at least %.1f show something", rate, chaosRate)
	}
}

// read returns the records that the tasks of a graph's runs wrote.
func (c *chaos) read(graph int) map[string]map[string][]tried {
	c.t.Helper()
	text, err := os.ReadFile(c.witness(graph))
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	runs := map[string]map[string][]tried{}
	for line := range strings.Lines(string(text)) {
		var what, run, task string
		var token int
		var at int64
		if _, err := fmt.Sscan(line, &what, &run, &task, &token, &at); err != nil {
			c.t.Fatalf("witness: %q: %v", line, err)
		}
		if runs[run] == nil {
			runs[run] = map[string][]tried{}
		}
		list := runs[run][task]
		i := slices.IndexFunc(list, func(a tried) bool { return a.token == token })
		switch {
		case what == "begin" && i >= 0:
			c.t.Errorf("run %s: %s began twice under token %d", run, task, token)
		case what == "begin":
			runs[run][task] = append(list, tried{token: token, begin: at})
		case i < 0 || list[i].end != 0:
			c.t.Errorf("run %s: %s ended under token %d without a begin, or twice", run, task, token)
		default:
			list[i].end = at
		}
	}
	return runs
}

func firstEnd(list []tried) (first int64) {
	for _, a := range list {
		if a.end != 0 && (first == 0 || a.end < first) {
			first = a.end
		}
	}
	return first
}

// overlapping counts the attempts of a task that began before an earlier one had ended by itself. It also
// returns the longest time for which both can have run. If an attempt has recorded no end, the time of its
// kill is unknown.
func overlapping(list []tried) (n int, longest time.Duration) {
	for i := range list {
		for k := range list[:i] {
			if both := min(list[k].end, max(list[i].end, list[k].end)) - max(list[i].begin, list[k].begin); both > 0 {
				n++
				longest = max(longest, time.Duration(both))
			}
		}
	}
	return n, longest
}

// table prints what happened.
func (c *chaos) table(took time.Duration, attempts, overlaps int, longest time.Duration, orphans int) {
	faults := 0
	for _, name := range slices.Sorted(maps.Keys(c.faults)) {
		c.t.Logf("%-56s %4d", name, c.faults[name])
		faults += c.faults[name]
	}
	c.t.Logf("not injected: %s", strings.Join(append(c.unable, "versions of several ages side by side"), ", "))
	slices.Sort(c.takeovers)
	at := func(share float64) time.Duration {
		if len(c.takeovers) == 0 {
			return 0
		}
		return c.takeovers[int(share*float64(len(c.takeovers)-1))].Round(10 * time.Millisecond)
	}
	c.t.Logf("%d faults in %v; %d runs acknowledged, %d attempts; takeover p50 %v, p99 %v (lag 4s, %d of them); "+
		"%d attempts of one task at once (longest %v); %d orphans; violations are what failed above",
		faults, took.Round(time.Second), len(c.acked), attempts, at(0.5), at(0.99), len(c.takeovers), overlaps, longest.Round(time.Millisecond), orphans)
}
