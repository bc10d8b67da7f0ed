package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestBoxEnds checks that tasks end in a box as they do without one: with exit codes, by signals, stops and
// timeouts, and if the program cannot start. No process outlives its attempt.
func TestBoxEnds(t *testing.T) {
	fenced(t)
	eachContainment(t, func(t *testing.T, contain func(*Config)) {
		r := newRig(t, contain, walled(t, IsolationBox))
		for script, is := range map[string][2]string{
			"exit 3":                          {CauseExit, "exit code 3"},
			"kill -SEGV $$":                   {CauseSignal, "ended by SIGSEGV"},
			"kill -KILL $$":                   {CauseSignal, "ended by SIGKILL"},
			"kill -TERM 1; kill -9 1; exit 4": {CauseExit, "exit code 4"},
			"cat /root/nothing; exit 5":       {CauseExit, "exit code 5"},
		} {
			want(t, r.run(r.sh(script)), Failed, is[0], is[1])
		}
		want(t, r.run(Job{Argv: []string{"/no/such/program"}}), Failed, CauseStart, "/no/such/program does not exist")
		want(t, r.run(Job{Dir: "/no/such/folder", Argv: []string{"true"}}), Failed, CauseStart, "working directory /no/such/folder does not exist")
		for _, left := range []string{"sleep 1000 &", "setsid -f sleep 1000", "(sleep 0.01 & exec true) & sleep 0.1", "setsid -f env -i /bin/sleep 1000"} {
			want(t, r.run(r.sh(left+"\ntrue")), Succeeded, "", "")
		}
		job := r.sh("trap 'echo told; exit 9' TERM; setsid -f sleep 1000; echo begun; while true; do sleep 0.01; done")
		r.Start(job)
		r.firstLine(job.Key)
		r.Stop(job.Key, ModeTerm)
		res := r.wait()
		if want(t, res, Stopped, CauseStopped, ""); res.ExitCode != 9 || !strings.HasSuffix(r.log(job.Key), "told\n") {
			t.Errorf("%+v, %q", res, r.log(job.Key))
		}
		job = r.sh("trap '' TERM; echo begun; while true; do sleep 0.01; done")
		r.Start(job)
		r.firstLine(job.Key)
		r.Stop(job.Key, ModeKill)
		want(t, r.wait(), Stopped, CauseKilled, "ended by SIGKILL")
		job = r.sh("sleep 1000")
		job.Timeout, job.KillGrace = 100*time.Millisecond, time.Millisecond
		want(t, r.run(job), Failed, CauseTimeout, "")
		var scan procScan
		scan.each(func(pid, _ int, env []byte) {
			if strings.Contains(string(env), outputVar+"="+r.data) {
				t.Errorf("process %d is left", pid)
			}
		})
	})
}

// TestBoxSees checks the processes and files that a task sees in its box.
func TestBoxSees(t *testing.T) {
	fenced(t)
	r := newRig(t, walled(t, IsolationBox))
	outside := put(t, filepath.Join(os.TempDir(), "skein-box-outside"), "x")
	defer os.Remove(outside)
	for name, script := range map[string]string{
		"only its own processes":           `test "$(ls /proc | grep -c '^[0-9]')" -lt 9`,
		"a /tmp of its own":                "test ! -e " + outside + " && echo x >/tmp/made && echo x >/var/tmp/made2 && ls $TMPDIR/made",
		"no other folder":                  "test ! -e /root && test ! -e /home && test ! -e /srv",
		"a root that it cannot change":     "! touch /made && ! mkdir /usr/made && ! touch /etc/made",
		"shared memory of its own":         "test -z \"$(ls /dev/shm)\" && echo x >/dev/shm/made",
		"terminals of its own":             "test \"$(ls /dev/pts)\" = ptmx",
		"no message queues of the machine": "test \"$(ipcs -q | grep -c '^0x')\" = 0",
		"no capabilities":                  "grep -q '^CapBnd:.0*[0-9a-f]' /proc/self/status && grep -q '^CapEff:.0000000000000000' /proc/self/status",
		"a filter of system calls":         "grep -q '^Seccomp:.2' /proc/self/status",
		"no further namespaces":            "! unshare -U true && ! unshare -m true && ! unshare -p true",
		"no mounts":                        "! mount -t tmpfs x /tmp && ! umount /tmp",
		"one user":                         `test "$(awk '{print $1 $3}' /proc/self/uid_map)" = "$(id -u)1"`,
		"no init that it can read":         "! cat /proc/1/environ && ! head -c0 /proc/1/mem && ! kill -0 1",
		"the network of the machine":       `test "$(cat /proc/net/dev | wc -l)" -gt 2`,
	} {
		job := r.sh(script)
		if res := r.run(job); res.State != Succeeded {
			t.Errorf("%s: %+v, %q", name, res, r.log(job.Key))
		}
	}
	key := int(time.Now().UnixNano() & 0x7fffffff)
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) }()
	want(t, r.run(r.sh("test $(ipcs -m | grep -c '^0x') = 0")), Succeeded, "", "")
}

// TestBoxCalls checks system calls that the filter refuses, by their numbers.
func TestBoxCalls(t *testing.T) {
	if !installed("python3") {
		t.Skip("python3 is not installed")
	}
	fenced(t)
	r := newRig(t, walled(t, IsolationBox))
	job := Job{Key: r.key(), Env: []string{"PATH=" + pathDefault}, Script: &Script{Interpreter: "python3", Code: `
import ctypes, errno, os, platform, threading
c = ctypes.CDLL(None, use_errno=True)
calls = {"x86_64": {"ptrace": 101, "bpf": 321, "keyctl": 250, "mount": 165, "userfaultfd": 323, "perf_event_open": 298,
  "unshare": 272, "setns": 308, "io_uring_setup": 425, "clone3": 435, "process_vm_readv": 310}}.get(platform.machine(), {})
for name, number in calls.items():
    ctypes.set_errno(0)
    c.syscall(number, 0, 0, 0, 0, 0)
    print(name, errno.errorcode.get(ctypes.get_errno()))
if platform.machine() == "x86_64":
    ctypes.set_errno(0); c.syscall(56, 0x10000000 | 17, 0, 0, 0, 0); print("clone", errno.errorcode.get(ctypes.get_errno()))
    ctypes.set_errno(0); c.syscall(0x40000000 | 39); print("x32", errno.errorcode.get(ctypes.get_errno()))
t = threading.Thread(target=print, args=("thread",)); t.start(); t.join()
`}}
	want(t, r.run(job), Succeeded, "", "")
	for line := range strings.Lines(r.log(job.Key)) {
		switch name, got, _ := strings.Cut(strings.TrimSpace(line), " "); name {
		case "thread":
		case "io_uring_setup", "clone3", "x32":
			if got != "ENOSYS" {
				t.Error(line)
			}
		default:
			if got != "EPERM" {
				t.Error(line)
			}
		}
	}
	if !strings.HasSuffix(r.log(job.Key), "thread\n") {
		t.Errorf("%q", r.log(job.Key))
	}
}

// TestBoxClosed checks a box without the network of the machine. Kinds of Skein, which need it, are refused.
func TestBoxClosed(t *testing.T) {
	fenced(t)
	r := newRig(t, walled(t, IsolationBox), func(c *Config) { c.ClosedBoxes = true })
	job := r.sh(`cat /proc/net/dev | grep -c :; cat /proc/net/fib_trie | grep -c 127.0.0.1; test ! -e /proc/net/route || cat /proc/net/route | wc -l`)
	if want(t, r.run(job), Succeeded, "", ""); !strings.HasPrefix(r.log(job.Key), "1\n") {
		t.Errorf("%q", r.log(job.Key))
	}
	house := Job{Argv: []string{"echo"}, Kind: &Kind{Name: "sql", House: true, Input: []byte("{}")}}
	want(t, r.run(house), Failed, CauseStart, "box_network")
}
