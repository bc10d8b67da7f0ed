//go:build linux

package worker

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
)

// become finds the user of an attempt behind a wall: the one that its job names, or that of its namespace.
// The keeper calls it, so a worker that asks for another user does not get it.
func (a *attempt) become(wall *wall) (err error) {
	named := a.job.User
	switch {
	case a.job.boxed(): // a container is its own isolation
		return nil
	case wall == nil || wall.uids == nil:
		if named != "" {
			return fmt.Errorf("namespace %s runs its tasks as the user %s, which needs the isolation user or box, and this attempt has neither", a.job.Key.Namespace, named)
		}
		return nil
	case named == "":
		a.uid, err = wall.uids.of(a.job.Key.Namespace)
		a.gid = a.uid
	case !slices.Contains(wall.named, named):
		return fmt.Errorf("namespace %s runs its tasks as the user %s, and this worker does not permit that user: start the worker with --task-users %s", a.job.Key.Namespace, named, named)
	default:
		a.uid, a.gid, err = userOf(named, wall.uids.rangeOf())
	}
	a.boxed, a.closed = wall.boxed, wall.closed
	return err
}

// OffersUsers returns an error if jobs at these levels cannot name one of the users.
func OffersUsers(levels, users []string, given UIDRange) error {
	if len(users) == 0 {
		return nil
	}
	if !slices.Contains(levels, IsolationUser) && !slices.Contains(levels, IsolationBox) {
		return errors.New("setting task_users: tasks have users only at the isolation levels user and box: set isolation, too")
	}
	for _, name := range users {
		if _, _, err := userOf(name, given); err != nil {
			return fmt.Errorf("setting task_users: %w", err)
		}
	}
	return nil
}

// userOf returns the IDs of a user of the machine and of its group. It returns an error if tasks must not
// have that user: root, the user of this process, or one that belongs to a namespace.
func userOf(name string, given UIDRange) (uid, gid uint32, err error) {
	is, err := user.Lookup(name)
	if err != nil {
		return 0, 0, fmt.Errorf("this machine has no user %s: make it with useradd, or choose another one", name)
	}
	u, uerr := strconv.ParseUint(is.Uid, 10, 32)
	g, gerr := strconv.ParseUint(is.Gid, 10, 32)
	if err := errors.Join(uerr, gerr); err != nil {
		return 0, 0, fmt.Errorf("user %s: %w", name, err)
	}
	uid, gid = uint32(u), uint32(g)
	switch {
	case uid == 0 || gid == 0:
		return 0, 0, fmt.Errorf("user %s has the ID or the group of root, and no task may have them: choose another user", name)
	case uid == uint32(os.Geteuid()) || gid == uint32(os.Getegid()):
		return 0, 0, fmt.Errorf("user %s has the ID or the group of this worker, and no task may have them: choose another user", name)
	case given.holds(uid) || given.holds(gid):
		return 0, 0, fmt.Errorf("user %s has an ID of task_uids %s, which are given to namespaces: choose another user, or set task_uids", name, given)
	}
	return uid, gid, nil
}
