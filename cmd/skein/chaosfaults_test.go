//go:build linux

package main

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// frozenLong is longer than the silence after which a node is declared dead, and longer than every lease.
const frozenLong = 6 * time.Second

// fullFor is how long a disk stays full: longer than a task runs.
const fullFor = 3 * time.Second

// fault injects one fault, or in the long form two at once, and waits until they are over.
func (c *chaos) fault() {
	c.t.Helper()
	m := c.members[c.rng.IntN(len(c.members))]
	other := c.members[c.rng.IntN(len(c.members))]
	all := c.ofNodes(m)
	w := c.hands[c.rng.IntN(len(c.hands))]
	maps.Copy(all, c.ofWorkers(w))
	maps.Copy(all, c.ofPeers(m))
	if c.disk > 0 {
		maps.Copy(all, c.ofDisks(m, w))
	}
	if c.registry != nil {
		maps.Copy(all, c.ofRegistry(m))
	}
	if len(c.members) < 4 {
		all["a node joins"] = c.join
	}
	maps.DeleteFunc(all, func(name string, _ func()) bool { return !strings.Contains(name, c.only) })
	name := pick(c, all)
	if c.long && other != m && c.rng.IntN(4) == 0 {
		with := c.meanwhile(other)
		what := pick(c, with)
		c.t.Logf("%s: %s, beside it %s: %s", m.name, name, other.name, what)
		with[what](true)
		all[name]()
		with[what](false)
		c.faults["beside another one: "+what]++
	} else {
		c.t.Logf("%s: %s", m.name, name)
		all[name]()
	}
	c.faults[name]++
	c.face()
}

func pick[F any](c *chaos, all map[string]F) string {
	names := slices.Sorted(maps.Keys(all))
	return names[c.rng.IntN(len(names))]
}

// ofNodes returns the faults of a node, of its keeper, of its connection to the database, and of the
// database.
func (c *chaos) ofNodes(m *member) map[string]func() {
	p := c.taps[m]
	hurt := func(mode int32, span time.Duration) func() {
		return func() {
			p.mode.Store(mode)
			time.Sleep(span)
			p.mode.Store(tapOpen)
		}
	}
	server := func() int { return m.server.Process.Pid }
	keeper := func() int { return keeperOf(m.home.data()) }
	return map[string]func(){
		"node killed, back at once":           func() { m.kill(); m.start() },
		"node killed, taken over":             func() { c.bereave(m) },
		"node and its keeper killed":          func() { m.kill(); killKeeper(c.t, m.home.data()); m.start() },
		"node frozen for long":                c.frozen(frozenLong, server),
		"node frozen for a moment":            c.frozen(time.Second, server),
		"node and its keeper frozen for long": c.frozen(frozenLong, server, keeper),
		"keeper of a node killed":             func() { killKeeper(c.t, m.home.data()) },
		"keeper of a node frozen for long":    c.frozen(frozenLong, keeper),
		"cut off":                             hurt(tapShut, 4*time.Second),
		"cut off, only what it says":          hurt(tapUp, 4*time.Second),
		"cut off, only what it hears":         hurt(tapDown, 4*time.Second),
		"database 100 ms away":                hurt(tapSlow, 2*time.Second),
		"commit lost on its way":              c.lost(&p.noEnd),
		"answer to a commit lost":             c.lost(&p.noAck),
		"stopped in order":                    func() { m.stop(); m.start() },
		"database killed": func() {
			if err := c.pg.Kill(); err != nil {
				c.t.Fatal(err)
			}
			time.Sleep(time.Duration(c.rng.IntN(3000)) * time.Millisecond)
			if err := c.pg.Start(); err != nil {
				c.t.Fatal(err)
			}
		},
	}
}

// ofPeers returns the faults of the connections between nodes, and between workers and nodes.
func (c *chaos) ofPeers(m *member) map[string]func() {
	hurt := func(mode int32, of ...*tap) func() {
		return func() {
			for _, p := range of {
				p.mode.Store(mode)
			}
			time.Sleep(frozenLong)
			for _, p := range of {
				p.mode.Store(tapOpen)
			}
		}
	}
	return map[string]func(){
		"nobody reaches it":                    hurt(tapShut, c.walls[m]),
		"nobody hears its answers":             hurt(tapDown, c.walls[m]),
		"it hears nobody":                      hurt(tapUp, c.walls[m]),
		"no node and no worker reaches a node": hurt(tapShut, slices.Collect(maps.Values(c.walls))...),
	}
}

// ofWorkers returns the faults of a worker process and of its keeper.
func (c *chaos) ofWorkers(w *hand) map[string]func() {
	worker := func() int { return w.cmd.Process.Pid }
	keeper := func() int { return keeperOf(w.home.data()) }
	return map[string]func(){
		"worker killed, back at once":           func() { w.kill(); w.start() },
		"worker killed, back late":              func() { w.kill(); time.Sleep(frozenLong); w.start() },
		"worker and its keeper killed":          func() { w.kill(); killKeeper(c.t, w.home.data()); w.start() },
		"worker frozen for long":                c.frozen(frozenLong, worker),
		"worker frozen for a moment":            c.frozen(time.Second, worker),
		"worker and its keeper frozen for long": c.frozen(frozenLong, worker, keeper),
		"keeper of a worker killed":             func() { killKeeper(c.t, w.home.data()) },
		"keeper of a worker frozen for long":    c.frozen(frozenLong, keeper),
	}
}

// ofDisks returns the faults of the disks to which nodes and workers write their logs, journals and folders
// of attempts.
func (c *chaos) ofDisks(m *member, w *hand) map[string]func() {
	full := func(h *home, meanwhile func()) {
		ballast := fill(c.t, h.data())
		time.Sleep(fullFor)
		meanwhile()
		if err := os.Remove(ballast); err != nil {
			c.t.Fatal(err)
		}
	}
	none := func() {}
	return map[string]func(){
		"disk of a node full":                                  func() { full(m.home, none) },
		"disk of a node full, and then it is killed":           func() { full(m.home, m.kill); m.start() },
		"disk of a node full, and then its keeper is killed":   func() { full(m.home, func() { killKeeper(c.t, m.home.data()) }) },
		"disk of a worker full":                                func() { full(w.home, none) },
		"disk of a worker full, and then it is killed":         func() { full(w.home, w.kill); w.start() },
		"disk of a worker full, and then its keeper is killed": func() { full(w.home, func() { killKeeper(c.t, w.home.data()) }) },
	}
}

// ofRegistry returns the faults of the registry, and of the connection between a node and the registry.
func (c *chaos) ofRegistry(m *member) map[string]func() {
	killed := func(meanwhile func()) func() {
		return func() {
			c.registry.Kill()
			time.Sleep(time.Duration(c.rng.IntN(6000)) * time.Millisecond)
			meanwhile()
			c.registry.Start()
		}
	}
	return map[string]func(){
		"registry frozen for long":                   func() { c.registry.Pause(); time.Sleep(frozenLong); c.registry.Resume() },
		"registry frozen for a moment":               func() { c.registry.Pause(); time.Sleep(time.Second); c.registry.Resume() },
		"registry frozen, and a node dies":           func() { c.registry.Pause(); c.bereave(m); c.registry.Resume() },
		"registry killed":                            killed(func() {}),
		"registry killed, and back without its data": killed(c.registry.Wipe),
		"cut off from the registry":                  func() { c.links[m].Cut(true); time.Sleep(frozenLong); c.links[m].Cut(false) },
	}
}

// lost makes the tap lose the next transaction or its answer. If there is no transaction in time, the loss is
// withdrawn, so that it does not affect a process that starts during a later fault.
func (c *chaos) lost(armed *atomic.Bool) func() {
	return func() {
		armed.Store(true)
		time.Sleep(time.Second)
		if armed.Swap(false) {
			c.t.Log("there was no transaction to lose")
		}
	}
}

// meanwhile returns the faults of a node that can last as long as another fault.
func (c *chaos) meanwhile(m *member) map[string]func(on bool) {
	p := c.taps[m]
	pid := m.server.Process.Pid
	mode := func(p *tap, is int32) func(bool) {
		return func(on bool) {
			if !on {
				is = tapOpen
			}
			p.mode.Store(is)
		}
	}
	all := map[string]func(bool){
		"database 100 ms away": mode(p, tapSlow),
		"cut off":              mode(p, tapShut),
		"nobody reaches it":    mode(c.walls[m], tapShut),
		"answers to commits lost": func(on bool) {
			p.noAck.Store(on)
		},
		"node frozen": func(on bool) {
			s := syscall.SIGCONT
			if on {
				s = syscall.SIGSTOP
			}
			c.signal(pid, s)
		},
	}
	if link := c.links[m]; link != nil {
		all["cut off from the registry"] = link.Cut
	}
	return all
}

// frozen stops processes, and continues them after a while.
func (c *chaos) frozen(span time.Duration, of ...func() int) func() {
	return func() {
		var pids []int
		for _, pid := range of {
			if p := pid(); p != 0 { // a keeper without attempts may have ended
				pids = append(pids, p)
				c.signal(p, syscall.SIGSTOP)
			}
		}
		time.Sleep(span)
		for _, p := range pids {
			c.signal(p, syscall.SIGCONT)
		}
	}
}

// signal sends a signal. It ignores processes that have ended.
func (c *chaos) signal(pid int, s syscall.Signal) {
	c.t.Helper()
	if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		c.t.Fatal(err)
	}
}
