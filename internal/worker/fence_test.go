//go:build linux

package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/fence"
)

// fenced isolates the tasks of a rig. If CI is set, a kernel without Landlock is an error, so that the test
// is not skipped unnoticed.
func fenced(t *testing.T, protected ...string) func(*Config) {
	t.Helper()
	if fence.ABI() == 0 {
		if os.Getenv("CI") != "" {
			t.Fatal(fence.ErrNone)
		}
		t.Skip(fence.ErrNone)
	}
	return func(c *Config) { c.Isolation, c.Protected = IsolationFence, protected }
}

func put(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// firstLine waits for the first line of a log.
func (r *rig) firstLine(key Key) string {
	r.t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if line, _, found := strings.Cut(r.log(key), "\n"); found {
			return line
		}
		if time.Since(began) > patience {
			r.t.Fatal("nothing was written")
		}
	}
}

// TestAttacks runs forbidden and allowed actions in a task, at both levels. The level none shows that each
// attack works without isolation.
func TestAttacks(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	put(t, home+"/.ssh/id", "key")
	key := put(t, filepath.Join(t.TempDir(), "node.key"), "key")
	me := strconv.Itoa(os.Getpid())
	attacks := []struct{ name, script string }{
		{"read the environment of the keeper", "cat /proc/" + me + "/environ | grep -q ."},
		{"read the memory of the keeper", "head -c0 /proc/" + me + "/mem"},
		{"signal the keeper", "kill -0 " + me},
		{"read a token in the data folder", "cat $DATA/access/local.token"},
		{"read the log of another workflow", "cat $DATA/logs/other/w/r/t.1.log"},
		{"read an artifact of another workflow", "cat $DATA/artifacts/other/file"},
		{"list the data folder", "ls $DATA"},
		{"write into the data folder", "echo x >$DATA/access/made"},
		{"read the environment of a neighbour", "cat /proc/$NEIGHBOUR/environ | grep -q ."},
		{"signal a neighbour", "kill -0 $NEIGHBOUR"},
		{"read the folder of a neighbour", "ls /proc/$NEIGHBOUR/cwd/"},
		{"read a key of the node", "cat " + key},
		{"read the home folder", "cat " + home + "/.ssh/id"},
		{"write the home folder", "echo x >" + home + "/made"},
		{"write a system folder", "echo x >/etc/skein-attack && rm /etc/skein-attack"},
		{"gain privileges", "grep -q '^NoNewPrivs:.0' /proc/self/status"},
	}
	rights := []struct{ name, script string }{
		{"write its working folder", "echo x >made && mkdir -p a/b && mv made a/b && rm -r a"},
		{"write its temporary folder", `f=$(mktemp) && echo x >"$f" && test "${f#$TMPDIR}" != "$f"`},
		{"write its output", `echo x=1 >>"$SKEIN_OUTPUT"`},
		{"use a home folder", `echo x >"$HOME/.toolrc"`},
		{"write to devices", "echo x >/dev/null && head -c1 /dev/urandom >/dev/shm/skein-$$ && rm /dev/shm/skein-$$"},
		{"write to its own output by name", "echo -n >/dev/stdout"},
		{"run programs", "env true && sh -c 'exit 0'"},
		{"signal its own child", "sleep 100 & kill $!"},
		{"resolve names of users", "id -un"},
	}
	for _, level := range []string{IsolationNone, IsolationFence} {
		t.Run(level, func(t *testing.T) {
			r := newRig(t, fenced(t, key), func(c *Config) { c.Isolation = level })
			put(t, r.data+"/access/local.token", "secret")
			put(t, r.data+"/logs/other/w/r/t.1.log", "text")
			put(t, r.data+"/artifacts/other/file", "text")
			neighbour := r.sh("echo $$; exec sleep 1000")
			r.Start(neighbour)
			pid := strings.TrimSpace(r.firstLine(neighbour.Key))
			defer func() {
				r.Stop(neighbour.Key, ModeKill)
				r.wait()
			}()
			try := func(script string) bool {
				job := r.sh("{ " + script + "; } 2>/dev/null >&2 && exit 7; exit 8")
				job.Env = []string{"DATA=" + r.data, "NEIGHBOUR=" + pid}
				switch res := r.run(job); {
				case res.Exited && res.ExitCode == 7:
					return true
				case res.Exited && res.ExitCode == 8:
					return false
				default:
					t.Fatalf("%s: %+v", script, res)
					return false
				}
			}
			for _, a := range attacks {
				if strings.HasPrefix(a.name, "signal") && fence.ABI() < 6 {
					continue // this kernel cannot prevent it
				}
				if os.Geteuid() != 0 && strings.Contains(a.name, "system") {
					continue // the user's permissions prevent it at each level
				}
				if got := try(a.script); got != (level == IsolationNone) {
					t.Errorf("%s: %v", a.name, got)
				}
			}
			for _, c := range rights {
				if level == IsolationNone && strings.Contains(c.name, "temporary") {
					continue // the variable comes from the node, if it is set there
				}
				if !try(c.script) {
					t.Errorf("%s: refused", c.name)
				}
			}
		})
	}
}

// TestAccess checks which files the working folder and access allow, and what a failed attempt says about a
// refused file.
func TestAccess(t *testing.T) {
	home, dir, other := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	put(t, dir+"/data", "x")
	put(t, dir+"/.env", "x")
	put(t, home+"/here.sh", "echo in $PWD; cat secret")
	put(t, home+"/secret", "x")
	put(t, other+"/in", "x")
	put(t, other+"/bin/tool", "#!/bin/sh\necho tool\n")
	r := newRig(t, fenced(t, dir+"/.env"))
	for _, c := range []struct {
		name, script string
		job          Job
		message      string // of a failure; "": success expected
	}{
		{"its working folder", "ls >list && mkdir sub && echo x >sub/y && rm -r sub list", Job{Dir: other}, ""},
		{"a file in a working folder that holds a protected one", "cat data", Job{Dir: dir}, ""},
		{"the protected file", "cat " + dir + "/.env", Job{Dir: dir}, dir + "/.env is protected"},
		{"a new file beside the protected one", "touch " + dir + "/new", Job{Dir: dir}, "make files in " + dir + ", because " + dir + "/.env"},
		{"a file elsewhere", "cat " + other + "/in", Job{}, "isolation does not let the task reach " + other + "/in: add access: {read: [" + other + "/in]}"},
		{"a file elsewhere that it may read", "cat " + other + "/in", Job{Access: &Access{Read: []string{other + "/in"}}}, ""},
		{"a folder that it may read", "ls " + other, Job{Access: &Access{Read: []string{other}}}, ""},
		{"a file that it may only read", "touch -c " + other + "/in; echo x | tee " + other + "/in", Job{Access: &Access{Read: []string{other}}}, "add access: {write: [" + other + "/in]}"},
		{"a folder that it may write", "echo x >" + other + "/out && rm " + other + "/out", Job{Access: &Access{Write: []string{other}}}, ""},
		{"a new file elsewhere", "mkdir " + other + "/new", Job{}, "add access: {write: [" + other + "]}"},
		{"access to a protected path", "true", Job{Access: &Access{Read: []string{r.data + "/logs"}}}, "access: " + r.data + "/logs is protected"},
		{"a home folder as working folder", "cat " + home + "/secret", Job{Dir: home}, "isolation does not let the task reach " + home + "/secret"},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := c.job
			job.Argv = []string{"sh", "-c", c.script}
			res := r.run(job)
			if (c.message == "") != (res.State == Succeeded) || !strings.Contains(res.Message, c.message) {
				t.Errorf("%+v; log %q", res, r.log(res.Key))
			}
		})
	}
	t.Run("a program elsewhere", func(t *testing.T) {
		res := r.run(Job{Argv: []string{other + "/bin/tool"}})
		want(t, res, Failed, CauseStart, fmt.Sprintf("isolation does not let the task read program %s/bin/tool", other))
	})
	t.Run("a program in PATH", func(t *testing.T) {
		res := r.run(Job{Argv: []string{"tool"}, Env: []string{"PATH=" + other + "/bin:/usr/bin:/bin"}})
		want(t, res, Succeeded, "", "")
	})
	t.Run("the script of a home folder", func(t *testing.T) {
		res := r.run(Job{Dir: home, Script: &Script{File: "here.sh"}})
		if log := r.log(res.Key); !strings.Contains(log, "in "+home) || res.ExitCode != 1 {
			t.Errorf("%+v, log %q", res, log)
		}
	})
}
