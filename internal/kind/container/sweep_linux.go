package container

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ownerText names a process of this machine: the boot of the machine, the namespace of processes, the number
// of the process in it, and the time of its start.
func ownerText(pid int) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	var space unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &space); err != nil {
		return "", err
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest) // the fields of proc(5), from the third one on
	const state, start = 0, 19
	if len(fields) <= start {
		return "", errors.New("/proc has no time of the start of a process")
	}
	if fields[state] == "Z" || fields[state] == "X" {
		return "", os.ErrProcessDone
	}
	return fmt.Sprintf("%s %d %d %s", strings.TrimSpace(string(boot)), space.Ino, pid, fields[start]), nil
}

// isDead reports whether the process that an owner's text names has ended. It returns false for a process
// that this process cannot see.
func isDead(owner string) bool {
	self, err := ownerText(os.Getpid())
	theirs, ours := strings.Fields(owner), strings.Fields(self)
	if err != nil || len(theirs) != len(ours) {
		return false
	}
	if theirs[0] != ours[0] {
		return true // the machine was started again
	}
	pid, err := strconv.Atoi(theirs[2])
	if err != nil || theirs[1] != ours[1] {
		return false
	}
	now, err := ownerText(pid)
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrProcessDone) || err == nil && now != owner
}

// sweep removes containers whose attempts have ended. Usually there are none, because a container ends with
// its attempt. There are some if a process was killed between making and starting a container.
func (d *docked) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	var all []struct {
		ID     string `json:"Id"`
		Names  []string
		Labels map[string]string
	}
	filters := url.Values{"all": {"1"}, "filters": {`{"label":["` + labelOwner + `"]}`}}
	if err := d.call(ctx, http.MethodGet, "/containers/json?"+filters.Encode(), nil, &all); err != nil {
		return err
	}
	for _, of := range all {
		run, task := of.Labels[labelRun], of.Labels[labelTask]
		if !slices.Contains(of.Names, "/"+containerName(run, task, of.Labels[labelToken])) || !isDead(of.Labels[labelOwner]) {
			continue
		}
		d.say("container %.12s of a killed attempt is removed: run %s, task %s", of.ID, run, task)
		if err := d.end(ctx, of.ID); err != nil {
			return err
		}
	}
	return nil
}
