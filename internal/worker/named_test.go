//go:build linux

package worker

import "testing"

// TestNamedUser checks that a job that names a user of the machine runs as that user, only in that user's
// group, and that the files of the job belong to the user. The keeper refuses a user that the worker does not
// permit, also if the job names it.
func TestNamedUser(t *testing.T) {
	for _, level := range Levels[2:] {
		t.Run(level, func(t *testing.T) {
			fenced(t)
			namedUser(t, newRig(t, walled(t, level), func(c *Config) { c.Users = []string{"games", "root"} }))
		})
	}
}

func namedUser(t *testing.T, r *rig) {
	as := func(user string) Job {
		job := r.sh("id -un; id -G; echo x >out; stat -c %U:%g out; stat -c %U:%g .")
		job.User = user
		return job
	}
	uid, gid, err := userOf("games", UIDRange{})
	if err != nil || uid == gid {
		t.Fatalf("user games: %d, %d, %v; the test needs a user whose group has another number", uid, gid, err)
	}
	job := as("games")
	want(t, r.run(job), Succeeded, "", "")
	if log := r.log(job.Key); log != "games\n60\ngames:60\ngames:60\n" {
		t.Errorf("%q", log)
	}
	// The settings permit root by mistake, and do not permit the others.
	for _, user := range []string{"daemon", "root", "nobody"} {
		want(t, r.run(as(user)), Failed, CauseStart, "")
	}
	own := r.sh("id -u")
	want(t, r.run(own), Succeeded, "", "")
	if log := r.log(own.Key); log != uidOf(t, r, "shop")+"\n" {
		t.Errorf("without a name: %q", log)
	}
}

// TestOffersUsers checks which users an owner of a worker cannot permit.
func TestOffersUsers(t *testing.T) {
	user := []string{IsolationUser}
	for _, c := range []struct {
		levels, users []string
		given         UIDRange
		permitted     bool
	}{
		{user, nil, UIDRange{}, true},
		{user, []string{"games"}, UIDRange{}, true},
		// At this level, tasks have no users of their own.
		{[]string{IsolationFence}, []string{"games"}, UIDRange{}, false},
		{user, []string{"games", "root"}, UIDRange{}, false},
		{user, []string{"no-such-user"}, UIDRange{}, false},
		{user, []string{"games"}, UIDRange{1, 100}, false}, // the ID of games is in the range of the namespaces
	} {
		if err := OffersUsers(c.levels, c.users, c.given); (err == nil) != c.permitted {
			t.Errorf("%v at %v, with %s for namespaces: %v", c.users, c.levels, c.given, err)
		}
	}
}
