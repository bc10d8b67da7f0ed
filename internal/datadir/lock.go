package datadir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// LockedError says that another process holds the data folder, and how to reach it.
type LockedError struct {
	Data    string
	Address string // URL; "" if the holder has not written one yet
	PID     int
	Worker  bool // the holder is a worker, which takes no requests
}

func (e *LockedError) Error() string {
	what := "process"
	if e.Worker {
		what = "worker"
	}
	text := fmt.Sprintf("a skein %s (pid %d) holds the data folder %s", what, e.PID, e.Data)
	switch {
	case e.Worker:
		return text + " and answers no commands"
	case e.Address != "":
		return text + " and answers at " + e.Address
	}
	return text + " and has no address yet"
}

// holder is the content of the lock file.
type holder struct {
	PID     int    `json:"pid"`
	Address string `json:"address,omitempty"`
	Worker  bool   `json:"worker,omitempty"`
}

func (h holder) error(data string) *LockedError {
	return &LockedError{Data: data, Address: h.Address, PID: h.PID, Worker: h.Worker}
}

// Lock is the held lock of a data folder. The kernel releases the lock when the process ends, in whatever
// way. So the content of the file is valid only while the lock is held.
type Lock struct {
	File *os.File // the lock is held while it is open, in this process or in one that inherited it
}

func lockPath(data string) string { return filepath.Join(data, "lock") }

// Is reports whether a folder is, or was, the data folder of a process.
func Is(dir string) bool {
	_, err := os.Stat(lockPath(dir))
	return err == nil
}

// Take locks a data folder, or returns a *LockedError. A process that only looks (see [Find]) holds a shared
// lock for an instant, so Take tries a few times. If the holder that the file names has ended, only such
// processes can hold the lock, so Take tries for longer: a busy machine may stop them while they hold it.
func Take(data string) (*Lock, error) {
	file, err := os.OpenFile(lockPath(data), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unlockable(data, err)
	}
	for try := 0; ; try++ {
		err = flock(file, true)
		if !errors.Is(err, syscall.EWOULDBLOCK) || try >= lockTries && (try >= lockTriesOver || lives(readHolder(file).PID)) {
			break
		}
		time.Sleep(lockPoll) // the release of a lock gives no notification, and a wait in flock has no limit
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		h := readHolder(file)
		_ = file.Close()
		return nil, h.error(data)
	}
	l := &Lock{File: file}
	if err == nil {
		err = l.say(holder{})
	}
	if err != nil {
		_ = file.Close()
		return nil, unlockable(data, err)
	}
	return l, nil
}

// unlockable returns the error for a data folder whose lock file cannot be made, written or locked.
func unlockable(data string, err error) error {
	remedy := "choose another one with --data DIR"
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		remedy = "make room on its disk, or " + remedy
	}
	return fmt.Errorf("%w %s: its file lock cannot be used: %w; %s", ErrUnusable, data, Reason(err), remedy)
}

// Announce records the address at which the holder of the lock answers.
func (l *Lock) Announce(address string) error { return l.say(holder{Address: address}) }

// AnnounceWorker writes that the holder is a worker, which takes no requests.
func (l *Lock) AnnounceWorker() error { return l.say(holder{Worker: true}) }

// say writes the holder into the lock file.
func (l *Lock) say(h holder) error {
	h.PID = os.Getpid()
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	// A reader in between sees a cut text, takes it for "no address yet", and looks again.
	if err := l.File.Truncate(0); err != nil {
		return err
	}
	_, err = l.File.WriteAt(append(line, '\n'), 0)
	return err
}

// Release empties the file and releases the lock.
func (l *Lock) Release() error {
	_ = l.File.Truncate(0) // an outdated address would mislead people; only the lock decides
	return l.File.Close()
}

func readHolder(file *os.File) holder {
	var h holder
	var text [1024]byte
	n, _ := file.ReadAt(text[:], 0)
	if json.Unmarshal(text[:n], &h) != nil {
		return holder{}
	}
	return h
}

const (
	// lockWait bounds the time in which a starting holder must publish its address.
	lockWait = 15 * time.Second
	// lockPoll is the pause between two tries to take a lock, because nothing reports its release.
	lockPoll = 10 * time.Millisecond
	// lockTries is how often a taken lock is tried again. lockTriesOver is how often if its holder has ended.
	lockTries, lockTriesOver = 10, 500
)

// Find finds the process that holds a data folder, and waits until it has an address, unless it is a
// worker, which has none. It returns nil if there is no holder.
func Find(ctx context.Context, data string) (*LockedError, error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		found, err := Look(data)
		if err != nil || found == nil || found.Address != "" || found.Worker {
			return found, err
		}
		select {
		case <-ctx.Done():
			return found, nil
		case <-time.After(lockPoll):
		}
	}
}

// Look finds the process that holds a data folder, as Find does, but does not wait for its address. It
// reads the lock file and asks the kernel whether a process holds the lock.
func Look(data string) (*LockedError, error) {
	file, err := os.Open(lockPath(data))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil // a process that needs the folder names the fault, see Prepare
	}
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w; choose another data folder with --data DIR", ErrUnusable, data, Reason(err))
	}
	defer file.Close() // gives a shared lock back
	switch err := flock(file, false); {
	case err == nil:
		return nil, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return readHolder(file).error(data), nil
	default:
		return nil, fmt.Errorf("%w %s: read its lock: %w", ErrUnusable, data, err)
	}
}
