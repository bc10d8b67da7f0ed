//go:build linux

package worker

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A keeper obeys only the process that holds its data folder. The proof is the open file with the folder's
// lock, which a worker sends with its first message (SCM_RIGHTS). While the lock is held, it can be taken
// again only on that open file. A process of the same user may be able to read every file of the folder, but
// gets other open files. A worker that is started again takes the lock anyway, so adoption needs no other
// secret. The attacks that remain are in docs/decisions/027-a-keeper-holds-the-attempts.md.

const (
	// helloMax bounds the first message of a process that has shown no proof yet, in bytes.
	helloMax = 4 << 20
	// greetersMax bounds the concurrent connections without a proof. The oldest one is closed for a new one,
	// so strangers that leave connections open do not block a worker.
	greetersMax = 16
	// strangersTell is the time between two log lines about refused processes.
	strangersTell = time.Minute
)

// errStranger means that the other side of a connection does not hold the data folder.
var errStranger = errors.New("the caller does not hold the data folder")

// wire is a connection that can carry an open file with its first bytes.
type wire struct {
	*net.UnixConn
	show   *os.File // the open file to send with the next write
	listen bool     // the connection still expects an open file
	shown  *os.File // the first received file
}

// Write implements io.Writer.
func (w *wire) Write(p []byte) (int, error) {
	if w.show == nil {
		return w.UnixConn.Write(p)
	}
	rights := unix.UnixRights(int(w.show.Fd()))
	w.show = nil
	n, _, err := w.WriteMsgUnix(p, rights, nil)
	if err == nil && n < len(p) {
		var rest int
		rest, err = w.UnixConn.Write(p[n:])
		n += rest
	}
	return n, err
}

// Read implements io.Reader. While it expects an open file, it reads one message with its control data.
func (w *wire) Read(p []byte) (int, error) {
	if !w.listen {
		return w.UnixConn.Read(p)
	}
	oob := make([]byte, unix.CmsgSpace(4)) // the buffer has room for one descriptor, so the kernel closes all others
	n, oobn, _, _, err := w.ReadMsgUnix(p, oob)
	if oobn > 0 {
		w.take(oob[:oobn])
	}
	if n <= 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return max(n, 0), err
}

func (w *wire) take(oob []byte) {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	for i := range all {
		fds, err := unix.ParseUnixRights(&all[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			if file := os.NewFile(uintptr(fd), "shown"); w.shown == nil {
				w.shown = file
			} else {
				_ = file.Close()
			}
		}
	}
}

// proof returns the open file that came with the first message, or nil. The caller must close it. Afterwards
// the connection accepts no other open file.
func (w *wire) proof() *os.File {
	file := w.shown
	w.listen, w.shown = false, nil
	return file
}

// deed identifies the lock file of a data folder.
type deed struct{ dev, ino uint64 }

// deedOf returns the identity of an open file. It is zero if there is no file.
func deedOf(file *os.File) (d deed) {
	var st unix.Stat_t
	if file != nil && unix.Fstat(int(file.Fd()), &st) == nil {
		d = deed{uint64(st.Dev), st.Ino} //nolint:unconvert // its type depends on the machine
	}
	return d
}

// proves returns errStranger unless the open file holds the lock with which the keeper was started. It tests
// this by taking the lock again. That works on the open file that holds the lock. On any other open file it
// fails while a process holds the lock.
func (d deed) proves(file *os.File) error {
	switch {
	case file == nil:
		return fmt.Errorf("%w: it has sent no lock file as proof", errStranger)
	case d == deed{} || deedOf(file) != d:
		return fmt.Errorf("%w: the file that it has sent is not the lock file of its data folder", errStranger)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%w: another process does: %w", errStranger, err)
	}
	return nil
}

// greeters holds the connections that have shown no proof yet.
type greeters struct {
	mu   sync.Mutex // protects following fields
	all  []*net.UnixConn
	told time.Time
}

// add records a connection, and closes the oldest one if there are too many.
func (g *greeters) add(conn *net.UnixConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.all) >= greetersMax {
		_ = g.all[0].Close()
		g.all = g.all[1:]
	}
	g.all = append(g.all, conn)
}

// done removes a connection that has shown its proof, or has ended.
func (g *greeters) done(conn *net.UnixConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, c := range g.all {
		if c == conn {
			g.all = append(g.all[:i:i], g.all[i+1:]...)
			return
		}
	}
}

// tells reports whether a refused process may be logged now: once in strangersTell.
func (g *greeters) tells() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.told) < strangersTell {
		return false
	}
	g.told = time.Now()
	return true
}

// first serves the worker that has started this process. That worker's connection was inherited, so it needs
// no further proof. first closes met when the keeper knows the lock of the data folder, or when the
// connection has ended before that.
func (k *keeper) first(met chan struct{}) {
	file := os.NewFile(firstFile, "worker")
	conn, err := net.FileConn(file)
	_ = file.Close()
	if c, ok := conn.(*net.UnixConn); ok && err == nil {
		k.serve(c, func(shown *os.File) error {
			k.holds = deedOf(shown)
			close(met)
			return nil
		})
	}
	select {
	case <-met:
	default:
		close(met)
	}
}

// firstFile is the descriptor of the connection that a keeper inherits.
const firstFile = 3

func (k *keeper) accept(l *net.UnixListener) {
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // the most likely reason is that no descriptor is free
			time.Sleep(tendEvery)
			continue
		}
		go func() {
			if cred := peerOf(conn); cred == nil || cred.Uid != uint32(os.Geteuid()) && cred.Uid != 0 {
				_ = conn.Close()
				return
			}
			k.greeters.add(conn)
			defer k.greeters.done(conn)
			k.serve(conn, func(shown *os.File) error {
				k.greeters.done(conn)
				return k.holds.proves(shown)
			})
		}()
	}
}

// peerOf returns the process at the other end of a connection, or nil if the kernel does not tell.
func peerOf(conn *net.UnixConn) (cred *unix.Ucred) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) {
		if c, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			cred = c
		}
	})
	return cred
}

// meet reads the first message of a connection and checks its proof. It returns nil if either is missing or
// wrong.
func (k *keeper) meet(s *stream, proves func(shown *os.File) error) *hello {
	s.wire.listen, s.in.most = true, helloMax
	var first order
	err := s.greet(time.Now().Add(greetMax))
	if err == nil {
		_ = s.conn.SetDeadline(time.Now().Add(greetMax))
		err = s.read(&first)
	}
	shown := s.wire.proof()
	if shown != nil {
		defer shown.Close() // if shown stayed open, the lock would outlive its holder
	}
	if err != nil || first.Hello == nil {
		return nil
	}
	if err := proves(shown); err != nil {
		if k.greeters.tells() {
			pid := 0
			if cred := peerOf(s.conn); cred != nil {
				pid = int(cred.Pid)
			}
			k.log.Warn("the keeper refused a process that is not its node or worker; find the process", "code", "keeper_stranger", "pid", pid, "err", err)
		}
		return nil
	}
	s.in.most = orderMax
	if s.conn.SetDeadline(time.Time{}) != nil {
		return nil
	}
	return first.Hello
}
