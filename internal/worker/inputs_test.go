package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/artifact"
)

// keptIn stores files as artifacts of an attempt, and returns their folder and their list.
func keptIn(t *testing.T, files map[string]string) (at string, list []artifact.Info) {
	t.Helper()
	dir, ref := t.TempDir(), artifact.Ref{Run: artifact.Run{Namespace: "default", Workflow: "w", ID: "r0"}, Task: "from", Attempt: 1}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := artifact.Folder{Path: t.TempDir()}
	k := artifact.Keeper{Store: f, Limits: artifact.LimitsDefault}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := k.Keep(ref, artifact.WorkDir{Root: root}, []string{"**"}, func() bool { return false }); err != nil {
		t.Fatal(err)
	}
	at, err = f.Files(ref)
	if err != nil {
		t.Fatal(err)
	}
	if list, err = f.List(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	return at, list
}

// TestInputsOfAttempts checks that the inputs are in the folder before the task starts. Equal files stay, and
// other files are replaced. An input that cannot be written, or is damaged, fails the attempt and leaves no
// incomplete file.
func TestInputsOfAttempts(t *testing.T) {
	r := newRig(t)
	at, list := keptIn(t, map[string]string{"out/a": "hello\n"})
	key := Key{Namespace: "default", Workflow: "w", RunID: "in", Task: "a"}
	job := func(command, to string) Job {
		key.Attempt++
		in := Input{Info: list[0], At: at, File: list[0].Name}
		in.Name = to
		return Job{Key: key, Argv: []string{"sh", "-c", command}, Given: []Input{in}}
	}
	want(t, r.run(job("test hello = $(cat d/x)", "d/x")), Succeeded, "", "")
	script := job("", "run.sh")
	script.Argv, script.Script = nil, &Script{File: "run.sh"}
	want(t, r.run(script), Failed, CauseExit, "exit code 127") // hello is not a program, but the file existed
	own := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(own, name), []byte(text), 0o711); err != nil {
			t.Fatal(err)
		}
	}
	in := func(command, to string) Job {
		j := job(command, to)
		j.Dir = own
		return j
	}
	put("same", "hello\n")
	want(t, r.run(in("test -x same", "same")), Succeeded, "", "")
	put("other", "jello\n")
	want(t, r.run(in("test hello = $(cat other)", "other")), Succeeded, "", "")
	if err := errors.Join(os.Symlink("/etc/passwd", filepath.Join(own, "link")), os.Symlink("/tmp", filepath.Join(own, "out")), os.Mkdir(filepath.Join(own, "dir"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for to, why := range map[string]string{"link": "not a regular file", "dir": "not a regular file", "out/x": "escapes", "same/x": "not a directory", "../x": "leads outside"} {
		want(t, r.run(in("echo never", to)), Failed, CauseInputs, why)
	}
	if err := os.WriteFile(filepath.Join(at, "out/a"), []byte("jello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, r.run(in("echo never", "new")), Failed, CauseInputs, "is damaged")
	entries, err := os.ReadDir(own)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".skein") || e.Name() == "new" {
			t.Errorf("left: %s", e.Name())
		}
	}
}

// offered is an InputSource for tests.
type offered struct {
	list []Input
	text string
	err  error
	hold chan struct{} // nil if reads do not wait
}

func (o *offered) List(context.Context) ([]Input, error) { return slices.Clone(o.list), o.err }

func (o *offered) Read(ctx context.Context, in *Input, offset int64) ([]byte, error) {
	if o.hold != nil {
		close(o.hold)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []byte(o.text[offset:min(int(offset)+2, len(o.text))]), nil
}

// TestLinkFetches checks that inputs from other machines are fetched and put into the attempt's folder, and
// that no copy is left. If an input cannot be fetched, the attempt fails. A stop ends the fetch, and so does
// the end of the Link.
func TestLinkFetches(t *testing.T) {
	data := t.TempDir()
	stale := filepath.Join(data, incomingName, "artifacts", "default", "w", "old", "t.1")
	if err := os.MkdirAll(stale, 0o700); err != nil {
		t.Fatal(err)
	}
	b := newBond(t, data, time.Minute)
	if exists(stale) {
		t.Error("what an earlier process fetched is still there")
	}
	at, list := keptIn(t, map[string]string{"a": "hello\n"})
	given := []Input{{Info: list[0], At: at, File: "a"}, {Info: list[0], Index: 1}}
	given[1].Name = "d/b"
	job := func(task string, src *offered) Job {
		j := shell(task, 1, "cat a d/b >> $SKEIN_OUTPUT")
		j.Dir, j.Inputs = "", src
		return j
	}
	nothingLeft := func() {
		t.Helper()
		b.until("nothing is left", func() bool {
			left, _ := filepath.Glob(filepath.Join(data, incomingName, "artifacts", "*", "*", "*", "*"))
			return len(left) == 0
		})
	}
	ok := job("ok", &offered{list: given, text: "hello\n"})
	ok.Argv[2] = "test hellohello = $(cat a d/b | tr -d '\\n')"
	b.Start(ok)
	if r := b.result(); r.State != Succeeded {
		t.Errorf("%+v", r)
	}
	b.Start(job("none", &offered{err: artifact.NoInput("there is no such file")}))
	if r := b.result(); r.Cause != CauseInputs || r.Message != "there is no such file" {
		t.Errorf("%+v", r)
	}
	b.Start(job("damaged", &offered{list: given, text: "jello\n"}))
	if r := b.result(); r.Cause != CauseInputs || !strings.Contains(r.Message, "the content does not match its size and digest") {
		t.Errorf("%+v", r)
	}
	held := &offered{list: given, hold: make(chan struct{})}
	stopped := job("stopped", held)
	b.Start(stopped)
	<-held.hold
	b.Stop(stopped.Key, ModeTerm)
	if r := b.result(); r.State != Stopped || r.Cause != CauseStopped {
		t.Errorf("%+v", r)
	}
	nothingLeft()
	last := &offered{list: given, hold: make(chan struct{})}
	b.Start(job("last", last))
	<-last.hold
	b.over()
	if r := b.result(); r.Cause != CauseClosed {
		t.Errorf("%+v", r)
	}
	nothingLeft()
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
}
