//go:build linux

package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/box"
)

// uidsName is the file in the data folder with the user IDs of the namespaces.
const uidsName = "uids.json"

// uids gives each namespace a user ID of its own, which is also the ID of its group. An ID is recorded on the
// disk before its first use and is never given to another namespace, because files of its tasks may remain.
type uids struct {
	path string

	mu    sync.Mutex // protects following fields
	from  UIDRange
	given *givenUIDs // nil if the file was not read yet
}

// givenUIDs is the content of the file.
type givenUIDs struct {
	Namespaces map[string]uint32 `json:"namespaces"`
	// Past lists the IDs that a namespace had before the range of IDs changed.
	Past []uint32 `json:"past,omitempty"`
}

// of returns the ID of a namespace.
func (u *uids) of(namespace string) (uint32, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.readLocked(); err != nil {
		return 0, fmt.Errorf("find the user of namespace %s: %w", namespace, err)
	}
	was, known := u.given.Namespaces[namespace]
	if known && u.from.holds(was) {
		return was, nil
	}
	next := givenUIDs{Namespaces: map[string]uint32{}, Past: slices.Clone(u.given.Past)}
	taken := map[uint32]bool{}
	for name, uid := range u.given.Namespaces {
		next.Namespaces[name], taken[uid] = uid, true
	}
	for _, uid := range u.given.Past {
		taken[uid] = true
	}
	uid := u.from.From
	for taken[uid] {
		if uid == u.from.To {
			return 0, fmt.Errorf("all user IDs of task_uids %s are given to namespaces already, so none is left for namespace %s; choose a larger range", u.from, namespace)
		}
		uid++
	}
	if next.Namespaces[namespace] = uid; known {
		next.Past = append(next.Past, was)
	}
	if err := u.write(&next); err != nil {
		return 0, fmt.Errorf("record the user of namespace %s: %w", namespace, err)
	}
	u.given = &next
	return uid, nil
}

// rangeOf returns the range of IDs for namespaces.
func (u *uids) rangeOf() UIDRange {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.from
}

func (u *uids) readLocked() error {
	if u.given != nil {
		return nil
	}
	text, err := os.ReadFile(u.path)
	given := &givenUIDs{}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(text, given); err != nil {
			return fmt.Errorf("%s is damaged: %w; restore it from a backup", u.path, err)
		}
	}
	u.given = given
	return nil
}

// write replaces the file. It returns after the new content is durable.
func (u *uids) write(given *givenUIDs) error {
	text, err := json.MarshalIndent(given, "", "  ")
	if err != nil {
		return err
	}
	temp := u.path + ".new"
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, u.path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(u.path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// userNeeds lists the capabilities that a worker needs to run tasks as other users and to handle their files.
var userNeeds = []struct {
	bit  uint
	name string
	box  bool // needed only at the level box
}{
	{unix.CAP_SETUID, "CAP_SETUID", false}, {unix.CAP_SETGID, "CAP_SETGID", false}, {unix.CAP_KILL, "CAP_KILL", false},
	{unix.CAP_CHOWN, "CAP_CHOWN", false}, {unix.CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE", false}, {unix.CAP_FOWNER, "CAP_FOWNER", false},
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", true},
}

// capable reports whether this process has a capability.
func capable(bit uint) bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&head, &data[0]) == nil && data[bit/32].Effective&(1<<(bit%32)) != 0
}

// Offers returns nil if this machine can give a level of isolation to tasks whose data folder is data.
// Otherwise it returns the reason.
func Offers(level, data string, from UIDRange) error {
	if level == IsolationNone || level == "" {
		return nil
	}
	if _, err := Fences(); err != nil || level == IsolationFence {
		return err
	}
	var missing []string
	for _, c := range userNeeds {
		if c.box && level != IsolationBox {
			continue
		}
		if !capable(c.bit) {
			missing = append(missing, c.name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the worker cannot run tasks as other users: it needs root, or %s", strings.Join(missing, ", "))
	}
	if err := mapped(from); err != nil {
		return err
	}
	if err := unowned("/etc", from); err != nil {
		return err
	}
	if level == IsolationBox {
		return nil // the working folder of a task is in its box
	}
	return passable(data)
}

// ProbeBox makes a box as a test, and returns an error if that fails. Call it after Offers, and only from a
// program that calls box.Main for the argument box.Name.
func ProbeBox(from UIDRange) error {
	if err := box.Probe(from.From); err != nil {
		return fmt.Errorf("a box cannot be made: %w", err)
	}
	return nil
}

// mapped returns an error if the user namespace of this process lacks some IDs, as in some containers.
func mapped(ids UIDRange) error {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return fmt.Errorf("find the user IDs of this container: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		var inside, outside, count uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err == nil && inside <= uint64(ids.From) && uint64(ids.To) < inside+count {
			return nil
		}
	}
	return fmt.Errorf("this container does not have all user IDs %s: set task_uids to a range that it has", ids)
}

// unowned returns an error if a user or group of the machine has one of the IDs, or a user may use them in
// containers. etc is the folder of the lists of users and groups.
func unowned(etc string, ids UIDRange) error {
	for _, list := range []struct {
		name, of string
		id       int // the field with the first ID; the last field of subuid and subgid is the number of IDs
	}{{"passwd", "user", 2}, {"group", "group", 2}, {"subuid", "user", 1}, {"subgid", "user", 1}} {
		text, err := os.ReadFile(filepath.Join(etc, list.name))
		if err != nil {
			continue // the machine has no such list
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Split(strings.TrimSpace(line), ":")
			if len(fields) < 3 {
				continue
			}
			first, err := strconv.ParseUint(fields[list.id], 10, 32)
			count := uint64(1)
			if list.id == 1 {
				count, _ = strconv.ParseUint(fields[2], 10, 32)
			}
			if err == nil && first <= uint64(ids.To) && first+count > uint64(ids.From) {
				return fmt.Errorf("%s %s has IDs of task_uids %s in %s: set task_uids to a range that no user and no group has",
					list.of, fields[0], ids, filepath.Join(etc, list.name))
			}
		}
	}
	return nil
}

// passable returns an error if other users cannot enter the folders above the data folder.
func passable(data string) error {
	at, err := filepath.Abs(data)
	if err != nil {
		return err
	}
	for at != "/" {
		at = filepath.Dir(at)
		if info, err := os.Stat(at); err == nil && info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("other users may not enter %s, so tasks cannot reach their working folders in %s: choose a data folder elsewhere, such as /var/lib/skein", at, data)
		}
	}
	return nil
}

// permits reports whether the permissions of a file, and of the folders above it, let a user access it. want
// are permission bits for others. The user is in no group but gid.
func permits(path string, uid, gid, want uint32) bool {
	for first := true; ; first = false {
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil {
			return false
		}
		mode := st.Mode
		switch {
		case st.Uid == uid:
			mode >>= 6
		case st.Gid == gid:
			mode >>= 3
		}
		if !first {
			want = 0o1
		}
		if mode&want != want {
			return false
		}
		if path == "/" || path == "." {
			return true
		}
		path = filepath.Dir(path)
	}
}
