//go:build linux

package worker

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// walled isolates the tasks of a rig at a level. Other users may enter its data folder. A test of a level
// that this machine lacks is skipped with the reason.
func walled(t testing.TB, level string, protected ...string) func(*Config) {
	t.Helper()
	return func(c *Config) {
		for at := filepath.Dir(c.DataDir); at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
			if err := os.Chmod(at, 0o711); err != nil {
				t.Fatal(err)
			}
		}
		c.Isolation, c.Protected = level, protected
		c.UIDs, _ = ParseUIDs(UIDsDefault)
		if err := Offers(level, c.DataDir, c.UIDs); err != nil {
			t.Skipf("the level %s is not shown here: %v", level, err)
		}
		if level == IsolationBox {
			if err := ProbeBox(c.UIDs); err != nil {
				t.Skipf("the level %s is not shown here: %v", level, err)
			}
		}
	}
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

// attack is an action that a task tries. refused is the lowest level that refuses the action; "" means that
// no level refuses it.
type attack struct{ name, refused, script string }

// attacksOn returns the actions that tasks try, each with the lowest level that refuses it. me is the process
// of the keeper, key a protected file, and home the home folder of the worker's user.
func attacksOn(me, key, home string) []attack {
	return []attack{
		{"read the environment of the keeper", IsolationFence, "cat /proc/" + me + "/environ | grep -q ."},
		{"read the memory of the keeper", IsolationFence, "head -c0 /proc/" + me + "/mem"},
		{"signal the keeper", IsolationFence, "kill -0 " + me},
		{"connect to the socket of the keeper", IsolationUser, connectTo("$DATA/work/keeper.sock")},
		{"read a token in the data folder", IsolationFence, "cat $DATA/access/local.token"},
		{"read the log of another workflow", IsolationFence, "cat $DATA/logs/other/w/r/t.1.log"},
		{"read an artifact of another workflow", IsolationFence, "cat $DATA/artifacts/other/file"},
		{"list the data folder", IsolationFence, "ls $DATA | grep -q access"},
		{"list the working folders", IsolationFence, "test $(ls -d $DATA/work/*/* | wc -l) -gt 1"},
		{"write into the data folder", IsolationFence, "echo x >$DATA/access/made"},
		{"read the environment of a neighbour", IsolationFence, "cat /proc/$NEIGHBOUR/environ | grep -q ."},
		{"read the memory of a neighbour", IsolationFence, "head -c0 /proc/$NEIGHBOUR/mem"},
		{"signal a neighbour", IsolationFence, "kill -0 $NEIGHBOUR"},
		{"read the folder of a neighbour", IsolationFence, "ls /proc/$NEIGHBOUR/cwd/"},
		{"write the outputs of a neighbour", IsolationFence, "echo x=1 >>$(dirname $(readlink /proc/$NEIGHBOUR/cwd))/forged.out"},
		{"change the priority of a neighbour", IsolationUser, "renice -n 1 -p $NEIGHBOUR"},
		{"read a key of the node", IsolationFence, "cat " + key},
		{"read the home folder", IsolationFence, "cat " + home + "/.ssh/id"},
		{"write the home folder", IsolationFence, "echo x >" + home + "/made"},
		{"write a system folder", IsolationFence, "echo x >/etc/skein-attack && rm /etc/skein-attack"},
		{"read a system file of root", IsolationUser, "cat /etc/shadow"},
		{"read shared memory of another user", IsolationUser, "cat " + sharedOf(me)},
		{"gain privileges", IsolationFence, "grep -q '^NoNewPrivs:.0' /proc/self/status"},
		{"have capabilities", IsolationUser, "grep -q '^CapEff:.*[1-9a-f]' /proc/self/status"},
		{"be in the groups of the worker", IsolationUser, "id -G | grep -qx 0"},
		{"write core dumps", IsolationUser, `test "$(ulimit -Hc)" != 0`},
		{"have most of the process IDs of the machine", IsolationUser, `n=$(ulimit -Hu); test $n = unlimited || test $n -gt $(($(cat /proc/sys/kernel/pid_max) / 2))`},
		{"reach an address of the machine", "", "true </dev/tcp/127.0.0.1/$PORT"},
		{"read the name of a process of the machine", IsolationBox, "cat /proc/" + me + "/cmdline"},
	}
}

// sharedOf returns the path of a file in shared memory, which belongs to the worker's user.
func sharedOf(me string) string { return "/dev/shm/skein-attack-" + me }

// connectTo returns a command that connects to a socket with a path.
func connectTo(path string) string {
	return `python3 -c 'import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' ` + path
}

// lacks returns the reason why an attack shows nothing on this machine, or "".
func (a *attack) lacks() string {
	switch {
	case strings.HasPrefix(a.name, "signal") && fence.ABI() < 6:
		return "Landlock before version 6 does not refuse signals"
	case os.Geteuid() != 0 && (strings.Contains(a.name, "system") || strings.Contains(a.name, "capabilities") || strings.Contains(a.name, "groups")):
		return "the worker is not root, so the attack fails at each level"
	case strings.Contains(a.script, "-Hc") && limitHere(unix.RLIMIT_CORE) == 0, strings.Contains(a.script, "-Hu") && limitHere(unix.RLIMIT_NPROC) < 1<<15:
		return "the worker has that limit itself, so the attack fails at each level"
	case strings.Contains(a.script, "python3") && !installed("python3"), strings.Contains(a.script, "renice") && !installed("renice"):
		return "a program of the attack is not installed"
	}
	return ""
}

// limitHere returns the hard limit of this process.
func limitHere(resource int) uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil {
		panic("no limits: " + err.Error())
	}
	return limit.Max
}

func installed(program string) bool {
	_, err := lookPath(program, pathDefault, "/")
	return err == nil
}

// rightsOf returns actions that tasks may do, except at the levels in but.
var rightsOf = []struct{ name, but, script string }{
	{"write its working folder", "", "echo x >made && mkdir -p a/b && mv made a/b && rm -r a"},
	{"write its temporary folder", IsolationNone, `f=$(mktemp) && echo x >"$f" && test "${f#$TMPDIR}" != "$f"`},
	{"write its output", "", `echo x=1 >>"$SKEIN_OUTPUT"`},
	{"use a home folder", "", `echo x >"$HOME/.toolrc"`},
	{"write to devices", "", "echo x >/dev/null && head -c1 /dev/urandom >/dev/shm/skein-$$ && rm /dev/shm/skein-$$"},
	{"write to its own output by name", "", "echo -n >/dev/stdout"},
	{"run programs", "", "env true && sh -c 'exit 0'"},
	{"signal its own child", "", "sleep 100 & kill $!"},
	{"read the environment of its own child", "", "sleep 100 & cat /proc/$!/environ >/dev/null; s=$?; kill $!; exit $((8 - (s == 0)))"},
	{"resolve names of users", IsolationUser, "id -un"},
}

// pidOf waits for a process of this rig that has an entry in its environment and a name.
func (r *rig) pidOf(entry, name string) (pid string) {
	r.t.Helper()
	var scan procScan
	for began := time.Now(); pid == ""; time.Sleep(time.Millisecond) {
		scan.each(func(id, _ int, env []byte) {
			if comm := readText("/proc/" + strconv.Itoa(id) + "/comm"); hasEntry(env, entry) && strings.TrimSpace(comm) == name && strings.Contains(string(env), r.data) {
				pid = strconv.Itoa(id)
			}
		})
		if time.Since(began) > patience {
			r.t.Fatal("there is no process " + name)
		}
	}
	return pid
}

// TestAttacks runs forbidden and allowed actions in a task, at each level. The level none shows that each
// attack works without isolation.
func TestAttacks(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	put(t, home+"/.ssh/id", "key")
	key := put(t, filepath.Join(t.TempDir(), "node.key"), "key")
	me := strconv.Itoa(os.Getpid())
	shared := put(t, sharedOf(me), "text")
	if err := os.Chmod(shared, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(shared) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	for rank, level := range Levels {
		t.Run(level, func(t *testing.T) {
			fenced(t)
			r := newRig(t, walled(t, level, key))
			put(t, r.data+"/access/local.token", "secret")
			put(t, r.data+"/logs/other/w/r/t.1.log", "text")
			put(t, r.data+"/artifacts/other/file", "text")
			socket, err := listenIn(r.data + "/work")
			if err != nil {
				t.Fatal(err)
			}
			defer os.Remove(r.data + "/work/" + keeperSocket)
			defer socket.Close()
			neighbour := r.sh("echo begun; exec sleep 1000")
			neighbour.Key.Namespace = "bank"
			r.Start(neighbour)
			r.firstLine(neighbour.Key)
			pid := r.pidOf("SKEIN_NAMESPACE=bank", "sleep")
			defer func() {
				r.Stop(neighbour.Key, ModeKill)
				r.wait()
			}()
			try := func(script string) bool {
				job := r.sh("{ " + script + "; } 2>/dev/null >&2 && exit 7; exit 8")
				job.Argv[0] = "bash"
				job.Env = []string{"DATA=" + r.data, "NEIGHBOUR=" + pid, "PORT=" + port, "PATH=" + pathDefault}
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
			for _, a := range attacksOn(me, key, home) {
				if why := a.lacks(); why != "" {
					t.Logf("%s is not shown: %s", a.name, why)
					continue
				}
				refused := a.refused != "" && rank >= slices.Index(Levels, a.refused)
				if got := try(a.script); got == refused {
					t.Errorf("%s: %v", a.name, got)
				}
			}
			for _, c := range rightsOf {
				refused := c.but == level || c.but == IsolationUser && rank > slices.Index(Levels, IsolationUser)
				if try(c.script) == refused && (c.but != IsolationNone || level != IsolationNone) {
					t.Errorf("%s: refused %v", c.name, !refused)
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
	put(t, other+"/inner/in", "x")
	put(t, home+"/sub/in", "x")
	put(t, other+"/bin/tool", "#!/bin/sh\necho tool\n")
	r := newRig(t, fenced(t, dir+"/.env"))
	for _, c := range []struct {
		name, script string
		job          Job
		message      string // expected in the message of the failure; "" if success is expected
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
		{"a new file in /var/tmp", "touch /var/tmp/skein-attack", Job{}, "use $TMPDIR, a private folder, or add access: {write: [/var/tmp]}"},
		{"a new file in /tmp", "echo x >/tmp/skein-attack", Job{}, "use $TMPDIR, a private folder, or "},
		{"access to a protected path", "true", Job{Access: &Access{Read: []string{r.data + "/logs"}}}, "access: " + r.data + "/logs is protected"},
		{"the folder of its workflow file", "cat ../in && cat in", Job{Dir: other + "/inner", Origin: other}, ""},
		{"a new file in the folder of its workflow file", "touch ../new", Job{Dir: other + "/inner", Origin: other}, "add access: {write: [" + other + "]}"},
		{"a file of the folder of a workflow file that is a home folder", "cat ../secret", Job{Dir: home + "/sub", Origin: home}, "reach " + home + "/secret"},
		{"a home folder as working folder", "cat " + home + "/secret", Job{Dir: home}, "isolation does not let the task reach " + home + "/secret"},
		{"a new file of a home folder as working folder", "echo x >made", Job{Dir: home}, "add access: {write: [" + home + "]} to the task, or put the workflow file into a folder of its own"},
		{"a file of the home folder", "cat ~/secret", Job{}, "add access: {read: [" + home + "/secret]}, env: {HOME: " + home + "} to the task"},
		{"… with the line of the message", "cat ~/secret", Job{Env: []string{"HOME=" + home}, Access: &Access{Read: []string{home + "/secret"}}}, ""},
		{"sudo", `echo 'sudo: The "no new privileges" flag is set, which prevents sudo from running as root.' >&2; exit 1`, Job{}, "isolation: none"},
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

// TestFencesKept checks that a slot reuses a fence only for the same files. The protected paths of a worker
// may change when its node restarts, and its slots outlive that.
func TestFencesKept(t *testing.T) {
	fenced(t)
	var kept fences
	defer kept.close()
	of := func(shut string) *fence.Fence {
		f, err := kept.of(&fence.Spec{System: slices.Clone(systemRead), Devices: systemWrite, Shut: []string{shut}})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	one := of("/etc/one")
	if of("/etc/one") != one {
		t.Error("a fence was made again for the same files")
	}
	if of("/etc/two") == one {
		t.Error("a fence outlives a change of the protected paths")
	}
}

// TestEtcSkein checks that no task can read or create /etc/skein, and that /etc has a single rule on machines
// without that folder.
func TestEtcSkein(t *testing.T) {
	w := wall{shut: []string{"/data", etcSkein}}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		job  Job
		want bool
	}{
		"a plain task":           {Job{}, exists(etcSkein)},
		"write to /etc":          {Job{Access: &Access{Write: []string{"/etc"}}}, true},
		"write to /etc by links": {Job{Access: &Access{Write: []string{link}}}, true},
		"work in /etc":           {Job{Dir: "/etc/"}, true},
		"write elsewhere":        {Job{Access: &Access{Write: []string{"/etcetera"}}}, exists(etcSkein)},
	} {
		spec, err := w.spec(&slot{folder: "/data/slot"}, &c.job, &command{dir: c.job.Dir}, nil)
		if got := slices.Contains(spec.Shut, etcSkein); err != nil || got != c.want || !slices.Contains(spec.Shut, "/data") {
			t.Errorf("%s: %v, %v, want %v", name, spec.Shut, err, c.want)
		}
	}
	if _, err := w.spec(&slot{folder: "/data/slot"}, &Job{Access: &Access{Read: []string{etcSkein + "/token"}}}, &command{}, nil); err == nil {
		t.Error("a task may read", etcSkein)
	}
}

// TestDenied checks which paths are found in the output of programs.
func TestDenied(t *testing.T) {
	for output, want := range map[string]string{
		"sh: 1: cannot create /var/backups/x: Permission denied":                                        "/var/backups/x",
		"sh: 1: cannot create out/x: Permission denied":                                                 "/work/out/x",
		"/opt/shims/python3: line 9: /opt/libexec/tool: Permission denied":                              "/opt/libexec/tool",
		"tar (child): /var/backups/x.tgz: Cannot open: Permission denied\ntar (child): not recoverable": "/var/backups/x.tgz",
		"tar: /var/backups/x: Cannot change mode to rwxr-xr-x: Permission denied":                       "",
		"cp: cannot create regular file '/var/backups/x': Permission denied":                            "/var/backups/x",
		"mkdir: cannot create directory ‘/var/backups/x’: Permission denied":                            "/var/backups/x",
		"fatal: could not open '/srv/x' for reading: Permission denied":                                 "/srv/x",
		"PermissionError: [Errno 13] Permission denied: '/var/backups/x'":                               "/var/backups/x",
		"PermissionError: [Errno 13] Permission denied: 'x.csv'":                                        "/work/x.csv",
		"panic: open /var/backups/x: permission denied":                                                 "/var/backups/x",
		"Error: EACCES: permission denied, open '/srv/x'":                                               "/srv/x",
		"java.io.FileNotFoundException: /srv/x (Permission denied)":                                     "/srv/x",
		"Permission denied @ rb_sysopen - /srv/x (Errno::EACCES)":                                       "/srv/x",
		"ssh: connect to host a: Permission denied (publickey)":                                         "",
	} {
		if got := append(named(output, "/work", refusals), ""); got[len(got)-min(len(got), 2)] != want {
			t.Errorf("%s: %q, want %q last", output, got, want)
		}
	}
}
