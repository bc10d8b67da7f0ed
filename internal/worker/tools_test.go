//go:build linux

package worker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// link makes a link at path, and the folders above it.
func link(t *testing.T, path, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

// TestTools checks what tasks may read because of programs in PATH: installations, but not other files that
// happen to be next to a folder of programs.
func TestTools(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, opt := top+"/home/ann", top+"/opt"
	for _, file := range []string{
		home + "/.pyenv/shims/python3", home + "/.pyenv/versions/3/bin/python3", home + "/.pyenv/libexec/pyenv",
		home + "/.cargo/bin/cargo", home + "/.cargo/credentials.toml",
		home + "/.local/bin/own", home + "/.local/lib/python3/site-packages/m.py", home + "/.local/share/keys/k",
		home + "/.pipx/venvs/black/bin/black-it", home + "/.pipx/venvs/black/pyvenv.cfg", home + "/.pipx/venvs/black/lib/m.py",
		home + "/project/bin/run", home + "/project/lib/m.rb", home + "/project/.env",
		home + "/venv/bin/python", home + "/venv/pyvenv.cfg", home + "/venv/secret",
		home + "/bin/mine", home + "/lib/m", home + "/notes",
		opt + "/maven/bin/mvn", opt + "/maven/lib/m.jar", opt + "/chrome/chrome", opt + "/chrome/icudtl.dat",
		opt + "/app/node_modules/tool/cli.js", opt + "/app/node_modules/dep/index.js", opt + "/app/.env",
		opt + "/plain/bin/tool", opt + "/plain/secret",
		opt + "/tied/bin/tool", opt + "/tied/lib/m", opt + "/tied/data/key",
	} {
		put(t, file, "x")
	}
	put(t, home+"/.local/bin/made", "#!"+opt+"/python/bin/python3\n")
	put(t, opt+"/python/bin/python3", "x")
	put(t, opt+"/python/lib/os.py", "x")
	link(t, home+"/.local/bin/black", home+"/.pipx/venvs/black/bin/black-it")
	link(t, home+"/.local/bin/chrome", opt+"/chrome/chrome")
	link(t, home+"/.local/bin/tool", opt+"/app/node_modules/tool/cli.js")
	link(t, home+"/.local/bin/gone", top+"/gone")
	link(t, home+"/.local/bin/home", home)
	link(t, home+"/.local/bin/folder", opt+"/plain")
	link(t, home+"/.local/bin/key", home+"/.ssh/id")
	if err := os.Chmod(put(t, home+"/.ssh/id", "key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, search string
		want         []string // the result, without top
	}{
		{"a folder of the system", "/usr/bin:/bin", nil},
		{"shims", home + "/.pyenv/shims", []string{"/home/ann/.pyenv"}},
		{"programs without libraries", home + "/.cargo/bin", nil},
		{"the folder of a user's programs, their links and interpreters", home + "/.local/bin",
			[]string{"/home/ann/.local/lib", "/home/ann/.pipx/venvs/black", "/opt/app/node_modules", "/opt/chrome", "/opt/python"}},
		{"a project", home + "/project/bin", []string{"/home/ann/project/lib"}},
		{"a virtual environment", home + "/venv/bin", []string{"/home/ann/venv"}},
		{"a home folder", home + "/bin:" + home, nil},
		{"an installation", opt + "/maven/bin:bin::.", []string{"/opt/maven"}},
		{"an installation without libraries", opt + "/plain/bin", nil},
		{"an installation with a protected path", opt + "/tied/bin", []string{"/opt/tied/lib"}},
		{"a folder that does not exist", top + "/gone/bin", nil},
	} {
		var got []string
		for _, path := range toolsOf(c.search, home, []string{opt + "/tied/data"}) {
			if path, ok := strings.CutPrefix(path, top); ok { // links of /usr/bin of this machine may lead elsewhere
				got = append(got, path)
			}
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestMixed checks which folders hold more than programs. A task may not read such a folder as a whole just
// because a link in PATH leads to a program there.
func TestMixed(t *testing.T) {
	for folder, want := range map[string]bool{"/opt/google/chrome": false, "/usr/lib/jvm": false, "/opt": true, "/": true, "/var/lib": true,
		"/srv/data": true, "/mnt/disk": true, "/media/disk": true, "/home/bob/scripts": true, "/root/x": true, "/variable/x": false} {
		if got := mixed(folder); got != want {
			t.Errorf("%s: %v", folder, got)
		}
	}
}

// TestTaskTools runs programs of an installation behind a fence: the worker has it in its PATH. Other files
// next to the folder of the programs stay out of reach, and a folder in the PATH of a task adds nothing.
func TestTaskTools(t *testing.T) {
	home, top := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	put(t, home+"/.tools/versions/1/bin/real", "#!/bin/sh\ncat "+home+"/.tools/lib/text\n")
	put(t, home+"/.tools/shims/tool", "#!/bin/sh\nexec "+home+"/.tools/versions/1/bin/real\n")
	put(t, home+"/.tools/lib/text", "from the library\n")
	put(t, home+"/.ssh/id", "key")
	put(t, top+"/bin/other", "#!/bin/sh\ncat "+top+"/lib/text\n")
	put(t, top+"/lib/text", "x")
	t.Setenv("PATH", home+"/.tools/shims:"+os.Getenv("PATH"))
	r := newRig(t, fenced(t))
	res := r.run(r.sh("tool"))
	want(t, res, Succeeded, "", "")
	if log := r.log(res.Key); log != "from the library\n" {
		t.Errorf("log %q", log)
	}
	res = r.run(r.sh("cat " + home + "/.ssh/id"))
	want(t, res, Failed, CauseExit, home+"/.ssh/id: add access")
	job := r.sh("other")
	job.Env = []string{"PATH=" + top + "/bin:/usr/bin:/bin"}
	want(t, r.run(job), Failed, CauseExit, top+"/lib/text: add access: {read: ["+top+"/lib/text]}")
}

// TestAuto checks the level of the attempts of a worker whose level comes from the database.
func TestAuto(t *testing.T) {
	key := put(t, t.TempDir()+"/key", "secret\n")
	r := newRig(t, fenced(t, key), func(c *Config) {
		c.Isolation, c.Levels, c.IsolationAuto = IsolationNone, []string{IsolationNone, IsolationFence}, true
	})
	for _, c := range []struct {
		wants, level string
		reads        bool
	}{{"", "", true}, {"", IsolationFence, false}, {IsolationFence, "", false}, {"", "", true}} {
		job := r.sh("cat " + key)
		job.Isolation, job.IsolationDefault = c.wants, c.level
		if res := r.run(job); (res.State == Succeeded) != c.reads {
			t.Errorf("requires %q, the database says %q: %+v", c.wants, c.level, res)
		}
	}
	// A worker whose setting names a level has that level, and so has a machine without fences.
	for _, r := range []*rig{
		newRig(t, func(c *Config) { c.Isolation = IsolationNone }),
		newRig(t, func(c *Config) { c.Isolation, c.IsolationAuto = IsolationNone, true }),
	} {
		job := r.sh("cat " + key)
		job.IsolationDefault = IsolationFence
		want(t, r.run(job), Succeeded, "", "")
	}
}
