package worker

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestStartFailures(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	write := func(name, text string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain.txt", "echo hi\n", 0o600)
	write("noext", "#!/bin/sh\necho hi\n", 0o600)
	write("bad", "#!/no/such/interpreter\n", 0o700)
	write("crlf", "#!/no/such/sh\r\necho hi\r\n", 0o700)
	write("noline", "echo hi\n", 0o700)
	write("x.rb", "puts 1\n", 0o600)
	if err := unix.Mkfifo(filepath.Join(dir, "fifo.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		job     Job
		message string
	}{
		{"no program", Job{Argv: []string{"no-such-program-x"}}, `program "no-such-program-x" was not found in PATH`},
		{"nothing", Job{}, "no program to run"},
		{"empty", Job{Argv: []string{""}}, "no program to run"},
		{"path", Job{Argv: []string{"/no/such/program"}}, "program /no/such/program does not exist"},
		{"relative", Job{Dir: dir, Argv: []string{"./nothing"}}, dir + "/nothing does not exist"},
		{"not executable", Job{Argv: []string{plain}}, "is not executable: chmod +x"},
		{"folder", Job{Argv: []string{dir}}, "is a folder"},
		{"dir missing", Job{Dir: "/no/such/dir", Argv: []string{"true"}}, "working directory /no/such/dir does not exist"},
		{"dir is a file", Job{Dir: plain, Argv: []string{"true"}}, "is not a directory"},
		{"dir missing, script", Job{Dir: "/no/such/dir", Script: &Script{File: "a.sh"}}, "working directory /no/such/dir does not exist"},
		{"script missing", Job{Dir: dir, Script: &Script{File: "a.sh"}}, "script " + dir + "/a.sh does not exist"},
		{"script not executable", Job{Dir: dir, Script: &Script{File: "noext"}}, "is not executable: chmod +x"},
		{"script of no kind", Job{Dir: dir, Script: &Script{File: "plain.txt"}}, "no #! line and no extension"},
		{"script is a FIFO", Job{Dir: dir, Script: &Script{File: "fifo.sh"}}, "is not a regular file"},
		{"#! of nothing", Job{Dir: dir, Script: &Script{File: "bad"}}, `names "/no/such/interpreter", which does not exist`},
		{"#! with CR", Job{Dir: dir, Argv: []string{"./crlf"}}, "Windows line ends"},
		{"no #!", Job{Dir: dir, Argv: []string{"./noline"}}, "has no #! line"},
		{"interpreter missing", Job{Dir: dir, Env: []string{"PATH=/usr/bin/none"}, Script: &Script{File: "x.rb"}}, `program "ruby" was not found`},
		{"named interpreter missing", Job{Script: &Script{Interpreter: "no-such-lang", Code: "x"}}, `program "no-such-lang" was not found`},
		{"inline of no kind", Job{Script: &Script{Code: "echo hi"}}, "must begin with a #! line"},
		{"inline empty", Job{Script: &Script{Interpreter: "sh"}}, "the script is empty"},
		{"both", Job{Argv: []string{"true"}, Script: &Script{Interpreter: "sh", Code: "x"}}, "both a command and a script"},
		{"NUL", Job{Argv: []string{"echo", "a\x00b"}}, "NUL byte"},
		{"too large", Job{Argv: []string{"true", strings.Repeat("x", 1<<20)}}, "too large for the kernel"},
		{"files", Job{Argv: []string{"true"}, Files: func() ([]File, error) { return []File{{Name: "../x"}}, nil }}, "leads outside"},
		{"no files", Job{Argv: []string{"true"}, Files: func() ([]File, error) { return nil, fs.ErrPermission }}, "permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := r.run(c.job)
			want(t, res, Failed, CauseStart, c.message)
			if res.ExitCode != -1 || res.Exited || !res.Started.IsZero() || res.Finished.IsZero() {
				t.Errorf("%+v", res)
			}
		})
	}
}

func TestScripts(t *testing.T) {
	r := newRig(t)
	files := func() ([]File, error) {
		return []File{
			{Name: "run.sh", Mode: 0o755, Content: []byte("#!/bin/sh\necho \"#! $1\"\n")},
			{Name: "lib/by_ext.py", Mode: 0o644, Content: []byte("import sys; print('python', sys.argv[1])")},
			{Name: "lib/exec.sh", Mode: 0o755, Content: []byte("echo ext $1\n")},
			{Name: "tool", Mode: 0o711, Content: []byte("#!/bin/sh\nexec cat data.txt\n")},
			{Name: "data.txt", Mode: 0o666, Content: []byte("data\n")},
		}, nil
	}
	for _, c := range []struct {
		job  Job
		want string
	}{
		{Job{Script: &Script{File: "./run.sh", Args: []string{"a b"}}}, "#! a b\n"},
		{Job{Script: &Script{File: "lib/by_ext.py", Args: []string{"x"}}}, "python x\n"},
		{Job{Script: &Script{File: "lib/exec.sh", Args: []string{"x"}}}, "ext x\n"},
		{Job{Script: &Script{File: "run.sh", Interpreter: "bash", Args: []string{"y"}}}, "#! y\n"},
		{Job{Argv: []string{"sh", "-c", "./tool"}}, "data\n"},
		{Job{Argv: []string{"stat", "-c", "%a", ".", "lib", "data.txt", "tool"}}, "700\n700\n600\n700\n"},
		{Job{Script: &Script{Interpreter: "python3", Code: "import sys\nprint(sys.argv[1:], __file__.endswith('.py'))", Args: []string{"1"}}}, "['1'] True\n"},
		{Job{Script: &Script{Interpreter: "node", Code: "console.log(process.argv.slice(2))", Args: []string{"1"}}}, "[ '1' ]\n"},
		{Job{Script: &Script{Interpreter: "bash", Code: `[[ "$0" == *.code.sh || "$0" == *.code* ]] && echo "in $(basename "$PWD")"`}}, "in dir\n"},
		{Job{Script: &Script{Code: "#! /bin/sh -e \nfalse\necho no"}}, ""},
		{Job{Script: &Script{Interpreter: "sh", Code: `tr '\0' ' ' < /proc/$$/cmdline | grep -c secret; :`}}, "0\n"},
	} {
		c.job.Key, c.job.Files = r.key(), files
		res := r.run(c.job)
		if got := r.log(c.job.Key); got != c.want {
			t.Errorf("%+v %v: %q, want %q; %s", c.job.Script, c.job.Argv, got, c.want, res.Message)
		}
	}
}

// TestFreshFolder checks that every attempt gets an empty folder, whatever the previous attempt did to its
// own.
func TestFreshFolder(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Slots = 1 })
	for _, mess := range []string{
		"echo x > file; mkdir -p a/b; echo x > a/b/c",
		"mkdir locked; echo x > locked/f; chmod 500 locked; chmod 0 .",
		"rmdir $PWD",
		"d=$PWD; cd /; rmdir $d; ln -s /etc $d",
		"echo junk > ${SKEIN_OUTPUT%/*}/junk; mkdir ${SKEIN_OUTPUT%/*}/more",
		"chmod 777 .",
		"s=${SKEIN_OUTPUT%/*}; cd /; rm -rf $s; ln -s /tmp $s",
		"s=${SKEIN_OUTPUT%/*}; cd /; rm -rf $s; echo file > $s",
		"ln -s /etc/passwd link; mkfifo fifo",
		"for i in $(seq 200); do : > a-rather-long-name-for-a-file-$i; done",
	} {
		r.run(r.sh(mess)) // some of these scripts damage the folder of their own $SKEIN_OUTPUT
		check := r.sh(`[ -z "$(ls -A)" ] && [ "$(ls -A .. | tr '\n' ' ')" = 'dir tmp ' ] && stat -c '%a %F' . .. && echo x=1 > $SKEIN_OUTPUT`)
		res := r.run(check)
		want(t, res, Succeeded, "", "")
		if got := r.log(check.Key); got != "700 directory\n700 directory\n" || string(res.Outputs) != `{"x":"1"}` {
			t.Errorf("after %q: %q %s", mess, got, res.Outputs)
		}
	}
	for _, path := range []string{"/etc/passwd", "/tmp"} {
		if !exists(path) {
			t.Errorf("%s was followed and removed", path)
		}
	}
	fixed := t.TempDir()
	job := r.sh("pwd; echo kept > kept")
	job.Dir = fixed
	want(t, r.run(job), Succeeded, "", "")
	if got := r.log(job.Key); got != fixed+"\n" || !exists(fixed+"/kept") {
		t.Errorf("in %q", got)
	}
}

func TestLog(t *testing.T) {
	r := newRig(t)
	silent := r.sh("exit 0")
	want(t, r.run(silent), Succeeded, "", "")
	if exists(LogPath(r.data, silent.Key)) {
		t.Error("an attempt that wrote nothing has a log file")
	}
	order := r.sh("echo 1; echo 2 >&2; echo 3; printf 4 >&2")
	want(t, r.run(order), Succeeded, "", "")
	if got := r.log(order.Key); got != "1\n2\n3\n4" {
		t.Errorf("%q", got)
	}
	all := make([]byte, 0, 256*700)
	for range 700 {
		for b := range 256 {
			all = append(all, byte(b))
		}
	}
	file := filepath.Join(t.TempDir(), "bytes")
	if err := os.WriteFile(file, all, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := r.sh("cat " + file)
	want(t, r.run(binary), Succeeded, "", "")
	if r.log(binary.Key) != string(all) {
		t.Error("bytes were changed")
	}
	endless := r.sh(`head -c 3000000 /dev/zero | tr '\0' x`)
	res := r.run(endless)
	if got := r.log(endless.Key); got != strings.Repeat("x", 3000000) || res.LogBytes != 3000000 {
		t.Errorf("%d bytes", len(got))
	}
	closed := r.sh("exec >&- 2>&-; sleep 0.05; exit 4")
	want(t, r.run(closed), Failed, CauseExit, "exit code 4")
}

func TestLogIsCut(t *testing.T) {
	const sizeMax = 1 << 20
	r := newRig(t, func(c *Config) { c.LogMax = sizeMax })
	job := r.sh("yes | head -c 200000000")
	res := r.run(job)
	want(t, res, Succeeded, "", "the log was cut at 1048576 bytes, 198951424 dropped")
	got := r.log(job.Key)
	mark := "[skein: the log ends here, 198951424 bytes dropped]\n"
	if got != strings.Repeat("y\n", sizeMax/2)+mark {
		t.Errorf("%d bytes, ends %q", len(got), got[max(0, len(got)-100):])
	}
	job = r.sh("head -c 1048577 /dev/zero; exit 2")
	want(t, r.run(job), Failed, CauseExit, "exit code 2; the log was cut")
	if got := r.log(job.Key); !strings.HasSuffix(got, "\x00\n[skein: the log ends here, 1 bytes dropped]\n") {
		t.Errorf("ends %q", got[max(0, len(got)-100):])
	}
	exact := r.sh("head -c 1048576 /dev/zero")
	want(t, r.run(exact), Succeeded, "", "")
	if got := r.log(exact.Key); len(got) != sizeMax {
		t.Errorf("%d bytes", len(got))
	}
}

func TestLogCannotBeWritten(t *testing.T) {
	r := newRig(t)
	if err := os.WriteFile(filepath.Join(r.data, "logs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, r.run(r.sh("yes | head -c 1000000")), Succeeded, "", "the log is incomplete, 1000000 bytes lost: ")
}

func TestLogOnFullDisk(t *testing.T) {
	r := newRig(t)
	logs := filepath.Join(r.data, "logs")
	if err := os.Mkdir(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", logs, "tmpfs", 0, "size=256k,mode=0700"); err != nil {
		t.Skipf("no right to mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(logs, 0); err != nil {
			t.Error(err)
		}
	})
	job := r.sh("yes | head -c 1000000; echo x=1 > $SKEIN_OUTPUT")
	res := r.run(job)
	want(t, res, Succeeded, "", "no space left on device")
	if string(res.Outputs) != `{"x":"1"}` || res.LogBytes+res.LogLost != 1000000 || res.LogLost == 0 {
		t.Errorf("%+v", res)
	}
}

// daemons starts processes that leave the group, the session and their parents. The last one also clears its
// environment.
const daemons = `
	(setsid sh -c 'echo $$ > $W/setsid; exec sleep 1000' &)
	(setsid sh -c '(echo $(exec sh -c "echo \$PPID") > $W/double; exec sleep 1000) &' &)
	sh -c 'echo $$ > $W/child; exec sleep 1000' &
	sh -c 'trap "" TERM HUP INT; echo $$ > $W/deaf; while :; do sleep 1000; done' &
	for f in setsid double child deaf; do while ! [ -s $W/$f ]; do sleep 0.01; done; done
`

func TestNothingSurvives(t *testing.T) {
	eachContainment(t, func(t *testing.T, change func(*Config)) {
		r := newRig(t, change)
		for _, end := range []string{"exit 0", "exit 3", "kill -9 $$", "stop", "timeout"} {
			dir := t.TempDir()
			b := newBell(t)
			tail := map[string]string{"stop": "echo up > " + b.path + "; exec sleep 1000", "timeout": "echo ready; exec sleep 1000"}[end]
			if tail == "" {
				tail = end
			}
			job := r.sh("rm -f $W/*; " + daemons + tail)
			job.Env = []string{"W=" + dir}
			var res Result
			switch end {
			case "timeout":
				job.KillGrace = time.Millisecond
				res = r.runUntilReady(job)
			case "stop":
				r.Start(job)
				b.line(t)
				r.Stop(job.Key, ModeTerm)
				res = r.wait()
			default:
				res = r.run(job)
			}
			if end == "exit 0" && res.State != Succeeded || end == "stop" && res.State != Stopped {
				t.Errorf("%s: %+v", end, res)
			}
			for _, name := range []string{"setsid", "double", "child", "deaf"} {
				if !ended(t, filepath.Join(dir, name)) {
					t.Errorf("after %q the process %q lives", end, name)
				}
			}
		}
	})
}

func TestDaemonWithoutEnvironment(t *testing.T) {
	r := newRig(t)
	if !strings.HasPrefix(r.Containment(), "cgroup2") {
		t.Skip("process groups cannot find it: " + r.Containment())
	}
	file := filepath.Join(t.TempDir(), "pid")
	want(t, r.run(r.sh(`setsid env -i sh -c 'echo $$ > `+file+`; exec sleep 1000' & while ! [ -s `+file+` ]; do sleep 0.01; done`)), Succeeded, "", "")
	if !ended(t, file) {
		t.Error("it lives")
	}
}

// TestTaskMakesCgroups checks that a task may divide its own cgroup, and that the next task in the slot is
// not affected.
func TestTaskMakesCgroups(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Slots = 1 })
	if !strings.HasPrefix(r.Containment(), "cgroup2") || os.Geteuid() != 0 {
		t.Skip("needs root and cgroup2: " + r.Containment())
	}
	want(t, r.run(r.sh("exit 0")), Succeeded, "", "")
	own := func() string { return r.free[0].tree.(*cgroupTree).dir }
	job := r.sh(`mkdir $CG/sub && (echo 0 > $CG/sub/cgroup.procs; exec sleep 1000) & while ! grep -q . $CG/sub/cgroup.procs; do sleep 0.01; done`)
	job.Env = []string{"CG=" + own()}
	want(t, r.run(job), Succeeded, "", "")
	if left := marked(r.Worker.data); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	want(t, r.run(r.sh("exit 0")), Succeeded, "", "")
	job = r.sh(`mkdir $CG/sub; echo threaded > $CG/sub/cgroup.type; echo 1 > $CG/cgroup.kill`)
	job.Env = []string{"CG=" + own()}
	want(t, r.run(job), Failed, CauseSignal, "SIGKILL")
	want(t, r.run(r.sh("exit 0")), Succeeded, "", "")
	if err := unix.Rmdir(own()); err != nil { // as if another program removes the cgroup
		t.Fatal(err)
	}
	want(t, r.run(r.sh("exit 0")), Succeeded, "", "")
}

// TestPipeHeldOutside lets a process outside of the tree hold the pipe. The process is the test itself, which
// opens the pipe through /proc.
func TestPipeHeldOutside(t *testing.T) {
	r := newRig(t)
	b := newBell(t)
	goOn := newBell(t) // a separate bell, because the task would otherwise read its own one
	job := r.sh("echo $$ > " + b.path + "; read x < " + goOn.path + "; echo last")
	r.Start(job)
	pid := b.line(t)
	held, err := os.OpenFile("/proc/"+pid+"/fd/1", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := goOn.file.WriteString("go on\n"); err != nil {
		t.Fatal(err)
	}
	want(t, r.wait(), Succeeded, "", "")
	if got := r.log(job.Key); got != "last\n" {
		t.Errorf("%q", got)
	}
}

func TestStop(t *testing.T) {
	eachContainment(t, func(t *testing.T, change func(*Config)) {
		r := newRig(t, change)
		b := newBell(t)
		up := "echo up > " + b.path + "; "
		start := func(script string, grace time.Duration) Key {
			job := r.sh(script)
			job.KillGrace = grace
			r.Start(job)
			b.line(t)
			return job.Key
		}
		r.Stop(Key{RunID: "unknown", Task: "t", Attempt: 1}, ModeKill)

		polite := start("trap 'echo bye; exit 0' TERM; "+up+"while :; do sleep 0.01; done", time.Hour)
		r.Stop(polite, ModeTerm)
		r.Stop(polite, ModeTerm)
		res := r.wait()
		want(t, res, Stopped, CauseStopped, "stopped on request; exit code 0")
		if got := r.log(polite); !strings.HasSuffix(got, "bye\n") || !res.Exited || res.Outputs != nil {
			t.Errorf("%q %+v", got, res)
		}
		r.Stop(polite, ModeKill)

		deaf := "trap '' TERM; " + up + "while :; do sleep 0.01; done"
		r.Stop(start(deaf, time.Millisecond), ModeTerm)
		want(t, r.wait(), Stopped, CauseStopped, "SIGKILL")

		r.Stop(start(deaf, time.Hour), ModeKill)
		want(t, r.wait(), Stopped, CauseKilled, "SIGKILL")

		key := start("trap 'echo TERM > "+b.path+"' TERM; "+up+"while :; do sleep 0.01; done", time.Hour)
		r.Stop(key, ModeTerm)
		if got := b.line(t); got != "TERM" {
			t.Error(got)
		}
		r.Stop(key, ModeKill)
		r.Stop(key, ModeTerm)
		want(t, r.wait(), Stopped, CauseKilled, "SIGKILL")

		frozen := start("trap 'echo woken; exit 7' TERM; "+up+"kill -STOP $$", time.Hour)
		r.Stop(frozen, ModeTerm)
		res = r.wait()
		want(t, res, Stopped, CauseStopped, "")

		all := start("sh -c 'trap \"echo child; exit\" TERM; "+up+"while :; do sleep 0.01; done' & wait; wait", time.Hour)
		// The shell ends at once, and its child, which also gets TERM, is killed afterwards.
		r.Stop(all, ModeTerm)
		want(t, r.wait(), Stopped, CauseStopped, "")
	})
}

func TestTimeout(t *testing.T) {
	r := newRig(t)
	job := r.sh("exec sleep 1000")
	job.Timeout = 20 * time.Millisecond
	res := r.run(job)
	want(t, res, Failed, CauseTimeout, "ran longer than its timeout of 20ms; ended by SIGTERM")
	if !res.TimedOut || res.Signal != "SIGTERM" {
		t.Errorf("%+v", res)
	}
	job = r.sh("trap '' TERM; echo ready; while :; do sleep 0.01; done")
	job.KillGrace = 20 * time.Millisecond
	res = r.runUntilReady(job)
	want(t, res, Failed, CauseTimeout, "ended by SIGKILL")

	job = r.sh("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done")
	job.KillGrace = time.Hour
	res = r.runUntilReady(job)
	want(t, res, Failed, CauseTimeout, "exit code 0")

	job = r.sh("sleep 0.1; echo x=1 > $SKEIN_OUTPUT")
	job.Timeout, job.WarnOnTimeout = 10*time.Millisecond, true
	res = r.run(job)
	want(t, res, Succeeded, "", "which only warns")
	if !res.TimedOut || string(res.Outputs) != `{"x":"1"}` {
		t.Errorf("%+v", res)
	}
	job = r.sh("exit 0")
	job.Timeout = time.Hour
	if res := r.run(job); res.TimedOut || res.State != Succeeded {
		t.Errorf("%+v", res)
	}
}

// TestKillAfterTimeout checks that the cause stays the timeout if a kill comes during the grace period of a
// timeout.
func TestKillAfterTimeout(t *testing.T) {
	r := newRig(t)
	b := newBell(t)
	job := r.sh("trap 'echo TERM > " + b.path + "' TERM; echo up > " + b.path + "; while :; do sleep 0.01; done")
	job.Timeout, job.KillGrace = 2*time.Second, time.Hour
	r.Start(job)
	for _, said := range []string{"up", "TERM"} {
		if got := b.line(t); got != said {
			t.Error(got)
		}
	}
	r.Stop(job.Key, ModeKill)
	want(t, r.wait(), Failed, CauseTimeout, "SIGKILL")
}

// runUntilReady repeats a job with increasing timeouts, until its script has had enough time to set its
// traps, start its children, and say that it is ready.
func (r *rig) runUntilReady(job Job) Result {
	for job.Timeout = 50 * time.Millisecond; ; job.Timeout *= 2 {
		job.Key = r.key()
		res := r.run(job)
		if strings.Contains(r.log(job.Key), "ready") {
			return res
		}
	}
}

func TestOutputsOfAttempts(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		script, outputs, message string
		types                    map[string]string
		max                      int
	}{
		{script: ":"},
		{script: ": > $SKEIN_OUTPUT"},
		{script: "echo rows=5 >> $SKEIN_OUTPUT; echo rows=6 >> $SKEIN_OUTPUT", types: map[string]string{"rows": "int"}, outputs: `{"rows":6}`},
		{script: `echo '{"a": [1, 2]}' > $SKEIN_OUTPUT`, types: map[string]string{"a": "json"}, outputs: `{"a":[1,2]}`},
		{script: ":", types: map[string]string{"b": "int", "a": "int"}, message: `output "a" is declared but was not given`},
		{script: "mkfifo $SKEIN_OUTPUT", message: "not a regular file"},
		{script: "mkfifo $SKEIN_OUTPUT; (echo x=1 > $SKEIN_OUTPUT) & :", message: "not a regular file"},
		{script: "mkdir $SKEIN_OUTPUT", message: "not a regular file"},
		{script: "ln -s /etc/passwd $SKEIN_OUTPUT", message: "symbolic link"},
		{script: "ln -s /dev/zero $SKEIN_OUTPUT", message: "symbolic link"},
		{script: "truncate -s 100G $SKEIN_OUTPUT", message: "larger than 65536 bytes"},
		{script: "printf 'a=%65534s' x > $SKEIN_OUTPUT", outputs: `{"a":"` + strings.Repeat(" ", 65533) + `x"}`},
		{script: "printf 'a=%65535s' x > $SKEIN_OUTPUT", message: "larger than 65536 bytes"},
		{script: "echo a=12345 > $SKEIN_OUTPUT", max: 5, message: "larger than 5 bytes"},
		{script: "echo a=1 > $SKEIN_OUTPUT; chmod 0 $SKEIN_OUTPUT; rm $SKEIN_OUTPUT"},
	} {
		job := r.sh(c.script)
		job.OutputTypes, job.OutputsMax = c.types, c.max
		res := r.run(job)
		if c.message != "" {
			want(t, res, Failed, CauseOutput, c.message)
			if res.Outputs != nil || !res.Exited {
				t.Errorf("%s: %+v", c.script, res)
			}
			continue
		}
		want(t, res, Succeeded, "", "")
		if string(res.Outputs) != c.outputs {
			t.Errorf("%s: %.100s", c.script, res.Outputs)
		}
	}
	want(t, r.run(r.sh("mkfifo $SKEIN_OUTPUT; exit 5")), Failed, CauseExit, "exit code 5")
}

func TestProcScan(t *testing.T) {
	r := newRig(t)
	b := newBell(t)
	// The script executes no program while it waits, because the environment cannot be read during an exec.
	job := r.sh("echo up > " + b.path + "; read held < " + newBell(t).path)
	job.Env = []string{"BIG=" + string(bytes.Repeat([]byte("x"), 100<<10)), "ZZZ=" + b.path}
	r.Start(job)
	b.line(t)
	found := 0
	var scan procScan
	for _, pid := range pids() {
		if scan.has(pid, "SKEIN_RUN_ID=0191-run") && scan.has(pid, "ZZZ="+b.path) && !scan.has(pid, "ZZZ="+b.path[:len(b.path)-1]) && !scan.has(pid, "ZZ="+b.path) {
			found++
		}
	}
	if found != 1 {
		t.Errorf("found %d", found)
	}
	r.Stop(job.Key, ModeKill)
	r.wait()
}

// TestSecretsInOutputs checks that neither the row nor the log of a failed attempt contains a secret,
// whatever the task writes.
func TestSecretsInOutputs(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("abcdefghij", 9)
	for _, c := range []struct{ script, cause, says string }{
		// Without the check for secrets, the error about this output would quote 60 characters of it.
		{`echo "$TOKEN" > $SKEIN_OUTPUT`, CauseSecret, "hold a secret"},
		{`echo "n=$TOKEN" > $SKEIN_OUTPUT`, CauseSecret, "hold a secret"},
		{`printf '{"a":"\\u0061%s"}' "${TOKEN#a}" > $SKEIN_OUTPUT`, CauseSecret, "hold a secret"},
		{`echo "n=abc" > $SKEIN_OUTPUT`, CauseOutput, "must be an int"},
	} {
		job := r.sh(c.script)
		job.Env, job.Secrets, job.OutputTypes = []string{"TOKEN=" + long}, []string{long}, map[string]string{"n": "int"}
		res := r.run(job)
		want(t, res, Failed, c.cause, c.says)
		if strings.Contains(res.Message, long[:20]) || res.Outputs != nil {
			t.Errorf("%s: %q, %s", c.script, res.Message, res.Outputs)
		}
	}
}
