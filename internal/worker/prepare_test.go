package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/fence"
)

// preparing returns a job with two processes, each of which runs a script.
func (r *rig) preparing(first, second string) Job {
	job := r.ofKind(`if [ "$0" = prepare ]; then `+first+"\nelse "+second+"\nfi", "{}")
	job.Kind.Prepares, job.Env = true, []string{"COLOR=blue"}
	return job
}

// TestKindPrepares checks that an attempt of a kind that keeps files has two processes. Only the first one
// may write the kept files, which the next attempt of the namespace finds. It may write no other file, and
// gets no variable of the task.
func TestKindPrepares(t *testing.T) {
	for _, level := range Levels {
		t.Run(level, func(t *testing.T) {
			fenced(t)
			r := newRig(t, walled(t, level))
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			first := `echo "first $COLOR"; echo kept >> $SKEIN_KIND_FOLDER/a; echo x > ` + dir + `/first; echo plan > $SKEIN_OUTPUT.plan; echo n=1 > $SKEIN_OUTPUT`
			second := `echo "second $COLOR $(cat $SKEIN_OUTPUT.plan) $(wc -l < $SKEIN_KIND_FOLDER/a)"; echo x > $SKEIN_KIND_FOLDER/b; echo x > ` + dir + `/second; exit 75`
			for _, lines := range []string{"1", "2"} {
				job := r.preparing(first, second)
				job.Access = &Access{Write: []string{dir}}
				res := r.run(job)
				want(t, res, Failed, CauseExit, "exit code 75")
				if log := r.log(job.Key); !strings.HasPrefix(log, "first \n") || !strings.Contains(log, "second blue plan "+lines+"\n") || len(res.Outputs) > 0 {
					t.Errorf("%q, %s", log, res.Outputs)
				}
			}
			walls := level != IsolationNone && fence.ABI() > 0
			for path, there := range map[string]bool{
				filepath.Join(r.data, "kinds/mail/shop/*/a"): true,
				filepath.Join(r.data, "kinds/mail/shop/*/b"): !walls,
				filepath.Join(dir, "first"):                  !walls,
				filepath.Join(dir, "second"):                 true,
			} {
				if found, err := filepath.Glob(path); err != nil || (len(found) == 1) != there {
					t.Errorf("%s: %q, %v", path, found, err)
				}
			}
			other := r.preparing("ls $SKEIN_KIND_FOLDER/../../shop/*", "true")
			other.Key.Namespace = "bank"
			if res := r.run(other); walls && res.State != Failed {
				t.Errorf("another namespace reads the files: %q", r.log(other.Key))
			}
		})
	}
}

// TestKindPreparesEnds checks that the exit code of the first process has the meanings of a kind's, and that
// the second process does not start after a failure, a stop or the timeout.
func TestKindPreparesEnds(t *testing.T) {
	r := newRig(t)
	mark := filepath.Join(t.TempDir(), "second")
	second := "echo x > " + mark
	want(t, r.run(r.preparing("echo no such package; exit 78", second)), Failed, CausePermanent, "exit code 78: no such package")
	want(t, r.run(r.preparing("exit 75", second)), Failed, CauseAway, "could not be reached")
	want(t, r.run(r.preparing("kill -9 $$", second)), Failed, CauseSignal, "SIGKILL")
	bell := newBell(t)
	for cause, timeout := range map[string]time.Duration{CauseTimeout: 100 * time.Millisecond, CauseStopped: 0} {
		job := r.preparing("trap 'exit 0' TERM; echo x > "+bell.path+"; while :; do sleep 0.01; done", second)
		job.Timeout = timeout
		r.Start(job)
		if bell.line(t); timeout == 0 {
			r.Stop(job.Key, ModeTerm)
		}
		if res := r.wait(); res.Cause != cause {
			t.Errorf("%+v, want %s", res, cause)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the second process has started")
	}
	there := filepath.Join(t.TempDir(), "there")
	want(t, r.run(r.preparing("test -e "+there+" || { echo x > "+there+"; exit 75; }", second)), Succeeded, "", "")
	if _, err := os.Stat(mark); err != nil {
		t.Error(err)
	}
	end := r.preparing("true", "printf 'no lock' > $SKEIN_OUTPUT.end; exit 1")
	want(t, r.run(end), Failed, CauseExit, "exit code 1: no lock")
}
