package worker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/fence"
)

// ofKind returns a job of a kind whose process is a shell script.
func (r *rig) ofKind(script, input string) Job {
	return Job{Key: r.key(), Argv: []string{"sh", "-c", script}, Kind: &Kind{Name: "mail", Input: []byte(input), Patience: 400 * time.Millisecond}}
}

// TestKindInput checks at each level of isolation that a kind and its children can read the input, that no
// process can change it, and that it is in no file of the data folder, not even while the attempt runs.
func TestKindInput(t *testing.T) {
	for _, level := range Levels {
		t.Run(level, func(t *testing.T) {
			if level != IsolationNone {
				fenced(t)
			}
			r := newRig(t, walled(t, level))
			job := r.ofKind(`stat -L -c '%a %u' "$SKEIN_INPUT"; id -u; echo x 2>/dev/null 1<>"$SKEIN_INPUT"; cat "$SKEIN_INPUT" "$SKEIN_INPUT"; echo
				tr '\0' '\n' < /proc/$$/environ | grep -c canary; exec sleep 600`, `{"with":"canary"}`)
			job.Env, job.Secrets = []string{"SKEIN_INPUT=/etc/passwd"}, []string{"canary"}
			r.Start(job)
			for began := time.Now(); strings.Count(r.log(job.Key), "\n") < 4 && time.Since(began) < patience; {
				time.Sleep(5 * time.Millisecond)
			}
			r.holdsNot("canary")
			r.Stop(job.Key, ModeKill)
			want(t, r.wait(), Stopped, CauseKilled, "")
			mode, log, _ := strings.Cut(r.log(job.Key), "\n")
			if user := strings.TrimPrefix(mode, "400 "); log != user+"\n{\"with\":\"***\"}{\"with\":\"***\"}\n0\n" {
				t.Errorf("%q, %q", mode, log)
			}
			r.holdsNot("canary")
		})
	}
}

// holdsNot fails if a file of the data folder contains a text.
func (r *rig) holdsNot(text string) {
	r.t.Helper()
	_ = filepath.WalkDir(r.data, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if content, _ := os.ReadFile(path); strings.Contains(string(content), text) {
				r.t.Errorf("%s holds %q", path, text)
			}
		}
		return nil
	})
}

func TestKindExits(t *testing.T) {
	r := newRig(t)
	for script, is := range map[string][2]string{
		"exit 78":                          {CausePermanent, "mail says that a retry cannot help"},
		"exit 75":                          {CauseAway, "exit code 75: the system that the kind mail needs could not be reached"},
		"exit 76":                          {CauseExit, "exit code 76"},
		"echo why; exit 78":                {CausePermanent, "exit code 78: why"},
		"echo a; echo; echo b >&2; exit 1": {CauseExit, "exit code 1: b"},
		"exit 1":                           {CauseExit, "exit code 1"},
	} {
		res := r.run(r.ofKind(script, "{}"))
		want(t, res, Failed, is[0], is[1])
		if !res.Exited || res.Started.IsZero() {
			t.Errorf("%+v", res)
		}
	}
	plain := r.run(r.sh("exit 75"))
	want(t, plain, Failed, CauseExit, "exit code 75")
}

// TestKindAway checks that the process is started again until its system answers, and that its outputs are
// those of the last start.
func TestKindAway(t *testing.T) {
	r := newRig(t)
	there := filepath.Join(t.TempDir(), "there")
	job := r.ofKind(`echo try; echo '{"early": 1}' > $SKEIN_OUTPUT; test -s `+there+` || { echo x > `+there+`; exit 75; }; echo "in=$(cat $SKEIN_INPUT)"; echo last=1 > $SKEIN_OUTPUT`, "{}")
	res := r.run(job)
	want(t, res, Succeeded, "", "")
	if string(res.Outputs) != `{"last":"1"}` {
		t.Errorf("%s", res.Outputs)
	}
	if log := r.log(job.Key); strings.Count(log, "try\n") != 2 || !strings.Contains(log, "skein: the system that the kind mail needs cannot be reached") || !strings.Contains(log, "in={}") {
		t.Errorf("%q", log)
	}
	bell := newBell(t)
	for cause, timeout := range map[string]time.Duration{CauseTimeout: 300 * time.Millisecond, CauseStopped: 0} {
		job := r.ofKind("echo x > "+bell.path+"; exit 75", "{}")
		job.Kind.Patience, job.Timeout = time.Hour, timeout
		r.Start(job)
		if bell.line(t); timeout == 0 {
			r.Stop(job.Key, ModeTerm)
		}
		if res := r.wait(); res.Cause != cause {
			t.Errorf("%+v, want %s", res, cause)
		}
	}
}

// TestKindHouse checks that the process of a built-in kind is this program, also behind a fence.
func TestKindHouse(t *testing.T) {
	for _, level := range []string{IsolationNone, IsolationFence} {
		r := newRig(t, func(c *Config) { c.Isolation = level })
		extension := filepath.Join(r.data, "extensions", "mail")
		if err := os.MkdirAll(extension, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(extension, "send.sh"), []byte("#!/bin/sh\necho sent; echo x > ${0%/*}/new\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		job := Job{Key: r.key(), Argv: []string{"kind", "echo"}, Kind: &Kind{Name: "echo", House: true, Input: []byte("hello")}}
		if res := r.run(job); res.State != Succeeded || r.log(job.Key) != "echo hello" {
			t.Errorf("%s: %+v, %q", level, res, r.log(job.Key))
		}
		job = Job{Key: r.key(), Argv: []string{extension + "/send.sh"}, Kind: &Kind{Name: "mail", Folder: extension}}
		res := r.run(job)
		if _, err := os.Stat(filepath.Join(extension, "new")); !strings.HasPrefix(r.log(job.Key), "sent\n") || (err == nil) != (level == IsolationNone || fence.ABI() == 0) {
			t.Errorf("%s: %+v, %q, %v", level, res, r.log(job.Key), err)
		}
	}
}

func TestKindSize(t *testing.T) {
	job := Job{Kind: &Kind{Input: json.RawMessage(strings.Repeat("x", 1000))}}
	if job.Size() < 1000 {
		t.Error(job.Size())
	}
}

// TestKindBoxed checks that the exit code of a boxed kind is that of its command, unless the process says why
// it ended by itself, and that the process has no fence.
func TestKindBoxed(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Isolation = IsolationFence })
	outside := t.TempDir()
	for script, is := range map[string][2]string{
		"exit 78": {CauseExit, "exit code 78"},
		"exit 75": {CauseExit, "exit code 75"},
		"printf 'no such mount' > $SKEIN_OUTPUT.end; exit 78": {CausePermanent, "exit code 78: no such mount"},
		"printf 'no registry' > $SKEIN_OUTPUT.end; exit 75":   {CauseAway, "exit code 75: no registry"},
		"printf 'no image' > $SKEIN_OUTPUT.end; exit 1":       {CauseExit, "exit code 1: no image"},
		"echo x > " + outside + "/file && exit 3":             {CauseExit, "exit code 3"},
		"ln -s /etc/hostname $SKEIN_OUTPUT.end; exit 78":      {CauseExit, "exit code 78"},
		"head -c 5000 /dev/zero > $SKEIN_OUTPUT.end; exit 78": {CauseExit, "exit code 78"},
	} {
		job := r.ofKind(script, "{}")
		job.Kind.Boxed = true
		res := r.run(job)
		want(t, res, Failed, is[0], is[1])
		if strings.Contains(is[1], ": ") == (res.Message == "exit code "+strconv.Itoa(res.ExitCode)) {
			t.Errorf("%q", res.Message)
		}
	}
}

// TestKindKept checks that a process with a durable effect counts as succeeded even if it had to end.
func TestKindKept(t *testing.T) {
	r := newRig(t)
	job := r.ofKind(`trap 'echo n=1 > $SKEIN_OUTPUT; exit 79' TERM; sleep 600 & wait`, "{}")
	job.Timeout, job.KillGrace = time.Second, time.Minute
	res := r.run(job)
	want(t, res, Succeeded, "", "")
	if string(res.Outputs) != `{"n":"1"}` || res.TimedOut {
		t.Errorf("%+v", res)
	}
}
