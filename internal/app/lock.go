package app

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
	Address string // URL; "" if it does not say (yet)
	PID     int
	Worker  bool // it is a worker, which answers nobody
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

// lock is the held lock of a data folder. The kernel gives it back when the process ends, however it ends,
// so what the file says counts only while the lock is held.
type lock struct{ file *os.File }

func lockPath(data string) string { return filepath.Join(data, "lock") }

// takeLock locks a data folder, or returns a *LockedError. A process that only looks (see [FindHolder])
// holds a shared lock for an instant, so takeLock tries a few times.
func takeLock(data string) (*lock, error) {
	file, err := os.OpenFile(lockPath(data), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w %s: lock it: %w", ErrData, data, reason(err))
	}
	for try := 0; ; try++ {
		err = flock(file, true)
		if !errors.Is(err, syscall.EWOULDBLOCK) || try == lockTries {
			break
		}
		time.Sleep(lockPoll) // nothing tells when a lock is given back, and waiting in flock has no limit
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		h := readHolder(file)
		_ = file.Close()
		return nil, h.error(data)
	}
	l := &lock{file: file}
	if err == nil {
		err = l.say(holder{})
	}
	if err != nil {
		return nil, fmt.Errorf("%w %s: lock it: %w", ErrData, data, errors.Join(err, file.Close()))
	}
	return l, nil
}

// announce writes where the holder answers.
func (l *lock) announce(address string) error { return l.say(holder{Address: address}) }

// say writes the holder into the lock file.
func (l *lock) say(h holder) error {
	h.PID = os.Getpid()
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	// A reader in between sees a cut text, takes it for "no address yet", and looks again.
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt(append(line, '\n'), 0)
	return err
}

// release empties the file and gives the lock back.
func (l *lock) release() error {
	_ = l.file.Truncate(0) // a stale address would only mislead people: the lock itself is what counts
	return l.file.Close()
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
	// lockPoll is the pause between two looks: nothing tells when a file changes hands.
	lockPoll = 10 * time.Millisecond
	// lockTries is how often a taken lock is tried again.
	lockTries = 10
)

// FindHolder finds the process that holds a data folder, and waits until it has an address, unless it is a
// worker, which has none. It returns nil if there is no holder.
func FindHolder(ctx context.Context, data string) (*LockedError, error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		h, held, err := look(data)
		if err != nil || !held {
			return nil, err
		}
		found := h.error(data)
		if h.Address != "" || h.Worker {
			return found, nil
		}
		select {
		case <-ctx.Done():
			return found, nil
		case <-time.After(lockPoll):
		}
	}
}

// look reads the lock file and asks the kernel whether a process holds the lock.
func look(data string) (h holder, held bool, err error) {
	file, err := os.Open(lockPath(data))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return h, false, nil // whoever wants the folder says what is wrong with it
	}
	if err != nil {
		return h, false, fmt.Errorf("%w %s: %w; choose another one with --data DIR", ErrData, data, reason(err))
	}
	defer file.Close() // gives a shared lock back
	switch err := flock(file, false); {
	case err == nil:
		return h, false, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return readHolder(file), true, nil
	default:
		return h, false, fmt.Errorf("%w %s: look at its lock: %w", ErrData, data, err)
	}
}
