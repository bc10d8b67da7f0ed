//go:build linux

package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// logFile receives the raw bytes of one attempt. It never fails and never blocks the task: what cannot be
// kept is counted, and close says so.
type logFile struct {
	path    string
	sizeMax int64
	file    *os.File // nil until the first byte
	size    int64
	lost    int64
	last    byte  // the last byte kept
	err     error // the first failure; nothing is written after it
}

// write keeps p up to sizeMax.
func (l *logFile) write(p []byte) {
	keep := min(int64(len(p)), l.sizeMax-l.size)
	l.lost += int64(len(p)) - keep
	if keep <= 0 {
		return
	}
	if l.file == nil && l.err == nil {
		l.file, l.err = createLog(l.path)
	}
	if l.err != nil {
		l.lost += keep
		return
	}
	n, err := l.file.Write(p[:keep])
	l.size += int64(n)
	if n > 0 {
		l.last = p[n-1]
	}
	if err != nil { // a full disk, mostly
		l.lost += keep - int64(n)
		l.err = err
	}
}

// close ends the file and gives a sentence about what is missing in it, "" if nothing is.
func (l *logFile) close() string {
	if l.lost > 0 && l.file != nil {
		newline := ""
		if l.last != '\n' {
			newline = "\n"
		}
		// Best effort: on a full disk the mark is lost like the rest, the Result still tells.
		_, _ = fmt.Fprintf(l.file, "%s[skein: the log ends here, %d bytes dropped]\n", newline, l.lost)
	}
	if l.file != nil {
		if err := l.file.Close(); l.err == nil {
			l.err = err
		}
	}
	switch {
	case l.err != nil:
		return fmt.Sprintf("the log is incomplete, %d bytes lost: %v", l.lost, l.err)
	case l.lost > 0:
		return fmt.Sprintf("the log was cut at %d bytes, %d dropped", l.sizeMax, l.lost)
	}
	return ""
}

// createLog makes the folders only when they are missing: one run has many attempts.
func createLog(path string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND | unix.O_NOFOLLOW
	file, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		file, err = os.OpenFile(path, flags, 0o600)
	}
	return file, err
}
