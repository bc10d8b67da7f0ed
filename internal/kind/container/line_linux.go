package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
)

// socketFile is the name of the socket in ownFolder.
const socketFile = "attempt"

// line is the connection of an attempt to the first process of its container, which lives for as long as this
// connection.
type line struct {
	listener net.Listener

	mu     sync.Mutex // protects following fields
	conn   net.Conn   // nil before the first process has connected
	closed bool
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
	if err := os.Chmod(at, 0o666); err != nil {   // for any user of the container; see furnish
		return nil, errors.Join(err, l.Close())
	}
	return &line{listener: l}, nil
}

// tell sends the order to the first process of the container. No other process gets one. If that fails, the
// first process ends, and writes the reason to the log of the attempt.
func (l *line) tell(o order) {
	conn, err := l.listener.Accept()
	if err != nil {
		return
	}
	l.mu.Lock()
	l.conn = conn
	closed := l.closed
	l.mu.Unlock()
	_ = l.listener.Close()
	if closed || json.NewEncoder(conn).Encode(o) != nil {
		_ = conn.Close()
	}
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
