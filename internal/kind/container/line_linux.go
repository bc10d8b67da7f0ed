package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// socketFile is the name of the socket in ownFolder.
const socketFile = "attempt"

// line is the connection of an attempt to the first process of its container, which lives for as long as this
// connection.
type line struct {
	listener net.Listener

	mu      sync.Mutex // protects following fields
	conn    net.Conn   // nil before the first process has connected
	closed  bool
	refused error // why the container got no order
}

// listen makes the socket.
func (d *docked) listen() (*line, error) {
	folder, err := os.Open(filepath.Join(d.folder, ownFolder))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	// The path of a socket is short, and that of the folder may be long.
	at := fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), socketFile)
	l, err := net.Listen("unix", at)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // the path is valid only here; furnish removes the file
	if err := os.Chmod(at, 0o666); err != nil {   // any user of the container may connect; see furnish
		return nil, errors.Join(err, l.Close())
	}
	return &line{listener: l}, nil
}

// tell sends the order to the first process of the container, after accept has allowed its user. No other
// process gets an order. If that fails, the first process ends.
func (l *line) tell(o order, accept func(uid, gid int) error) {
	conn, err := l.listener.Accept()
	if err != nil {
		return
	}
	l.mu.Lock()
	l.conn = conn
	closed := l.closed
	l.mu.Unlock()
	_ = l.listener.Close()
	if closed {
		_ = conn.Close()
		return
	}
	uid, gid, err := userOf(conn)
	if err == nil {
		err = accept(uid, gid)
	}
	if err != nil {
		l.mu.Lock()
		l.refused = err
		l.mu.Unlock()
	}
	if err != nil || json.NewEncoder(conn).Encode(o) != nil {
		_ = conn.Close()
	}
}

// why returns the reason why the container got no order, or nil.
func (l *line) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// userOf returns the numbers of the user at the other end of a socket, as this machine sees them.
func userOf(conn net.Conn) (uid, gid int, err error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *unix.Ucred
	errCall := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(errCall, err); err != nil {
		return 0, 0, err
	}
	return int(cred.Uid), int(cred.Gid), nil
}

func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	_ = l.listener.Close()
	if l.conn != nil {
		_ = l.conn.Close()
	}
}
