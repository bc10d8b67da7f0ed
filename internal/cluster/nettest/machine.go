//go:build linux

package nettest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// serial makes the names of the namespaces of this process different.
var serial atomic.Int64

// device is the name of the network device of each machine.
const device = "skein0"

// Machine is a network namespace with one device and one address.
type Machine struct {
	Addr  string // IPv4
	name  string // the name of the network namespace
	space *os.File
	tun   *os.File
}

func newMachine(name, addr string) (*Machine, error) {
	if err := ip("netns", "add", name); err != nil {
		return nil, err
	}
	m := &Machine{Addr: addr, name: name}
	if err := m.connect(); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func (m *Machine) connect() error {
	var err error
	if m.space, err = os.Open(filepath.Join(spaces, m.name)); err != nil {
		return err
	}
	err = m.Do(func() error {
		var err error
		m.tun, err = openTun(device)
		return err
	})
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"link", "set", "lo", "up"}, {"address", "add", m.Addr + "/24", "dev", device}, {"link", "set", device, "up"}} {
		if err := ip(append([]string{"-n", m.name}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// openTun makes a TUN device in the namespace of the calling thread. The device exists until the file is
// closed.
func openTun(name string) (*os.File, error) {
	const path = "/dev/net/tun"
	// With O_NONBLOCK, the file uses the runtime's poller, so that Close ends a Read.
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: make a device: %w", path, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Do calls the function do on a thread in the machine's network namespace. The sockets that do opens, and the
// processes that it starts, belong to the machine.
func (m *Machine) Do(do func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer home.Close()
	if err := unix.Setns(int(m.space.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter the namespace %s: %w", m.name, err)
	}
	err = do()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, back) // the thread stays locked, so it ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}

// Dial connects to an address as a program on the machine would. The address must not contain a host name.
func (m *Machine) Dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = m.Do(func() error {
		c, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// Enter makes a command run on the machine, as the user of this process. The command must not have started.
func (m *Machine) Enter(cmd *exec.Cmd) {
	program, err := exec.LookPath("nsenter")
	if err != nil {
		cmd.Err = err
		return
	}
	cmd.Args = append([]string{"nsenter", "--net=" + m.space.Name(), "--", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = program
}

func (m *Machine) close() error {
	var errs []error
	for _, f := range []*os.File{m.tun, m.space} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(append(errs, ip("netns", "delete", m.name))...)
}
