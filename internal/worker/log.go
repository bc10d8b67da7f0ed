//go:build linux

package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"skein.dev/skein/sdk/shared/mask"
)

// logFile receives the raw bytes of one attempt. It never fails and never blocks the task. It counts the
// bytes that it cannot store, and close reports their number.
type logFile struct {
	path    string
	sizeMax int64
	file    *os.File // nil until the first byte
	size    int64
	lost    int64
	last    byte         // the last byte stored
	err     error        // the first failure; nothing is written after it
	lines   *lastLine    // last line of the log; nil if it is not needed
	mask    *mask.Writer // nil if the attempt has no secrets
	index   logIndex
}

// write masks p and keeps at most sizeMax bytes.
func (l *logFile) write(p []byte) {
	if l.mask != nil {
		p = l.mask.Mask(p)
	}
	l.put(p)
}

// put keeps at most sizeMax bytes.
func (l *logFile) put(p []byte) {
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
	l.index.wrote(l, p[:n])
	l.size += int64(n)
	if n > 0 {
		l.lines.see(p[:n])
		l.last = p[n-1]
	}
	if err != nil { // usually a full disk
		l.lost += keep - int64(n)
		l.err = err
	}
}

// close closes the file. It returns a sentence about missing output, or "".
func (l *logFile) close() string {
	if l.mask != nil {
		l.put(l.mask.End())
	}
	if l.lost > 0 && l.file != nil {
		newline := ""
		if l.last != '\n' {
			newline = "\n"
		}
		// On a full disk this mark is lost, too. The Result still reports the missing bytes.
		_, _ = fmt.Fprintf(l.file, "%s[skein: the log ends here, %d bytes dropped]\n", newline, l.lost)
	}
	l.index.close()
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

// createLog makes the folders only if they are missing, because one run has many attempts.
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
