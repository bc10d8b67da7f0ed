//go:build linux

package worker

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestLevels runs the attempts of one slot at several levels in turn. Each runs at the lowest level of the
// worker that is not below its job's, and gets nothing of the previous attempt.
func TestLevels(t *testing.T) {
	key := put(t, t.TempDir()+"/key", "secret\n")
	r := newRig(t, fenced(t), walled(t, IsolationUser, key), func(c *Config) {
		c.Slots, c.Isolation, c.Levels = 1, IsolationNone, []string{IsolationNone, IsolationUser}
		if ProbeBox(c.UIDs) == nil {
			c.Levels = append(c.Levels, IsolationBox)
		}
	})
	own := strconv.Itoa(os.Geteuid())
	for _, c := range []struct{ want, has string }{
		{"", IsolationNone}, {IsolationUser, IsolationUser}, {IsolationNone, IsolationNone}, {IsolationFence, IsolationUser},
		{IsolationBox, IsolationBox}, {"", IsolationNone}, {IsolationBox, IsolationBox}, {IsolationUser, IsolationUser},
	} {
		job := r.sh("id -u; cat " + key + " 2>&1 | tail -c 20; ls /proc | grep -c '^[0-9]'; pwd")
		job.Isolation = c.want
		res := r.run(job)
		if !slices.Contains(r.cfg.Levels, c.has) {
			want(t, res, Failed, CauseStart, "this worker does not offer it")
			continue
		}
		want(t, res, Succeeded, "", "")
		lines := strings.Split(r.log(job.Key), "\n")
		if uid := uidAt(t, r, c.has, own); lines[0] != uid || (lines[1] == "secret") != (c.has == IsolationNone) {
			t.Errorf("level %q: user %s, key %q", c.want, lines[0], lines[1])
		}
		if n, _ := strconv.Atoi(lines[2]); (n < 20) != (c.has == IsolationBox) {
			t.Errorf("level %q: it sees %s processes", c.want, lines[2])
		}
	}
	job := r.sh("true")
	job.Isolation = "tower"
	if want(t, r.run(job), Failed, CauseStart, "level tower"); t.Failed() {
		t.Log("an unknown level must not run as none")
	}
}

// uidAt returns the user that a task of namespace shop has at a level.
func uidAt(t *testing.T, r *rig, level, own string) string {
	if level == IsolationNone {
		return own
	}
	return uidOf(t, r, "shop")
}
