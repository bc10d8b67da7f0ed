//go:build linux

// Package nettest gives tests several machines, which are network namespaces, each with its own address. A
// test can cut the links between them, delay packets, and lose packets, separately for each direction.
//
//	lan := nettest.Start(t)
//	a, b := lan.Add(), lan.Add()
//	a.Enter(cmd)                                        // cmd will run on machine a
//	lan.Set(a, b, nettest.Link{Loss: 0.2})              // packets from a to b
//
// Each machine has one TUN device. A switch in the test process carries the packets between the devices. So a
// link does not need netem, which many kernels lack. TCP sees real loss, real delay and real silence, because
// the switch never closes a connection. The machines share files, processes and clocks, and can reach only
// each other.
package nettest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	// prefix begins the addresses of all machines. RFC 2544 reserves it for tests of networks.
	prefix = "198.18.0."
	// MachinesMax is the largest number of machines of a network.
	MachinesMax = 40
	// spaces is the folder in which iproute2 keeps namespaces by name.
	spaces = "/run/netns"
	// named is the beginning of the names of our namespaces. The process id of the test follows.
	named = "skein-"
)

// Network is a set of machines and the switch between them.
type Network struct {
	mu       sync.Mutex // protects following fields
	machines []*Machine
	links    map[[2]*Machine]*way

	carriers sync.WaitGroup
}

// Start makes a network without machines. It is removed at the end of the test. If this machine cannot make
// network namespaces, the test is skipped and says why.
func Start(t testing.TB) *Network {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		const text = "the program ip is not installed; make tools installs it (Debian: iproute2)"
		if os.Getenv("CI") != "" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	if err := able(); err != nil {
		t.Skipf("this machine cannot make network namespaces: %v", err)
	}
	n := &Network{links: map[[2]*Machine]*way{}}
	t.Cleanup(func() {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// able tests whether this machine can do what machines need, and removes the namespaces of tests that were
// killed.
func able() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can")
	}
	tun, err := openTun("")
	if err != nil {
		return err
	}
	_ = tun.Close()
	left, err := filepath.Glob(filepath.Join(spaces, named+"*"))
	if err != nil {
		return err
	}
	for _, path := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), named), "-")
		if n, err := strconv.Atoi(pid); err == nil && !errors.Is(unix.Kill(n, 0), unix.ESRCH) {
			continue
		}
		_ = ip("netns", "delete", filepath.Base(path))
	}
	try := fmt.Sprintf("%s%d-%d", named, os.Getpid(), serial.Add(1)) // tests may run this in parallel
	if err := ip("netns", "add", try); err != nil {
		return err
	}
	return ip("netns", "delete", try)
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Addresses returns the addresses of all machines that a network can have, for certificates.
func Addresses() (all []net.IP) {
	for i := range MachinesMax {
		all = append(all, net.ParseIP(address(i)))
	}
	return all
}

func address(i int) string { return prefix + strconv.Itoa(i+1) }

// Add makes one more machine. Its links carry every packet without delay.
func (n *Network) Add(t testing.TB) *Machine {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	i := len(n.machines)
	if i == MachinesMax {
		t.Fatalf("a network has at most %d machines", MachinesMax)
	}
	m, err := newMachine(fmt.Sprintf("%s%d-%d", named, os.Getpid(), serial.Add(1)), address(i))
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range n.machines {
		n.links[[2]*Machine{m, other}] = newWay(other)
		n.links[[2]*Machine{other, m}] = newWay(m)
	}
	n.machines = append(n.machines, m)
	n.carriers.Go(func() { n.carry(m) })
	return m
}

// carry reads the packets that a machine sends and forwards them to their receivers, until the machine is
// removed.
func (n *Network) carry(from *Machine) {
	packet := make([]byte, packetMax)
	for {
		size, err := from.tun.Read(packet)
		if err != nil {
			return
		}
		if w := n.way(from, packet[:size]); w != nil {
			w.take(packet[:size])
		}
	}
}

// way returns the link of a packet. It returns nil if no machine has the packet's address.
func (n *Network) way(from *Machine, packet []byte) *way {
	const version, to, ends = 4, 16, 20
	if len(packet) < ends || packet[0]>>4 != version {
		return nil
	}
	addr := net.IP(packet[to:ends]).String()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.machines {
		if m.Addr == addr {
			return n.links[[2]*Machine{from, m}]
		}
	}
	return nil
}

// Set changes the link from one machine to another. The link back stays as it is.
func (n *Network) Set(from, to *Machine, l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[[2]*Machine{from, to}].set(l)
}

// Between changes the links between two machines, in both directions.
func (n *Network) Between(a, b *Machine, l Link) {
	n.Set(a, b, l)
	n.Set(b, a, l)
}

// Around changes the links between a machine and all others, in both directions.
func (n *Network) Around(m *Machine, l Link) {
	for _, other := range n.all() {
		if other != m {
			n.Between(m, other, l)
		}
	}
}

// Everywhere changes all links.
func (n *Network) Everywhere(l Link) {
	for _, m := range n.all() {
		n.Around(m, l)
	}
}

func (n *Network) all() []*Machine {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]*Machine(nil), n.machines...)
}

// Count returns the packets that all links have carried and lost since the start.
func (n *Network) Count() (carried, lost int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.links {
		carried, lost = carried+w.carried.Load(), lost+w.lost.Load()
	}
	return carried, lost
}

// close removes the machines. Processes that still run on them can then reach nothing.
func (n *Network) close() error {
	var all []error
	for _, m := range n.all() {
		all = append(all, m.close())
	}
	n.carriers.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.links {
		w.close()
	}
	return errors.Join(all...)
}
