package worker

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"skein.dev/skein/internal/artifact"
)

// slowStore reads its input without end.
type slowStore struct {
	artifact.Folder
	begun chan artifact.Ref
}

type slowDeposit struct{ artifact.Deposit }

func (s slowStore) Begin(ctx context.Context, ref artifact.Ref) (artifact.Deposit, error) {
	d, err := s.Folder.Begin(ctx, ref)
	s.begun <- ref
	return slowDeposit{d}, err
}

func (d slowDeposit) Add(_ string, content io.Reader) (artifact.Info, error) {
	for {
		if _, err := content.Read(make([]byte, 1)); err != nil && err != io.EOF {
			return artifact.Info{}, err
		}
		time.Sleep(time.Millisecond)
	}
}

// TestArtifactsOfAttempts checks that artifacts are kept only after a success, that an attempt fails if they
// cannot be kept, and that a stop and the timeout end the keeping.
func TestArtifactsOfAttempts(t *testing.T) {
	r := newRig(t)
	own := artifact.Folder{Path: r.data}
	key := Key{Namespace: "default", Workflow: "w", RunID: "keep", Task: "a"}
	job := func(command string, globs ...string) Job {
		key.Attempt++
		return Job{Key: key, Argv: []string{"sh", "-c", command}, Artifacts: globs}
	}
	kept := func(f artifact.Folder) int {
		t.Helper()
		list, err := f.List(t.Context(), artifact.Ref{Run: artifact.Run{Namespace: "default", Workflow: "w", ID: "keep"}, Task: "a", Attempt: key.Attempt})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return len(list)
	}
	want(t, r.run(job("echo hello > file; echo n=1 >> $SKEIN_OUTPUT", "file", "*.txt")), Succeeded, "", "")
	if n := kept(own); n != 1 {
		t.Errorf("%d kept", n)
	}
	shared := artifact.Folder{Path: t.TempDir()}
	elsewhere := job("echo hello > file", "*")
	elsewhere.ArtifactsIn = shared.Path
	want(t, r.run(elsewhere), Succeeded, "", "")
	if kept(shared) != 1 || kept(own) != 0 {
		t.Error("not in the folder that the job names")
	}
	want(t, r.run(job("echo hello > file; exit 3", "*")), Failed, CauseExit, "exit code 3")
	if kept(own) != 0 {
		t.Error("something was kept of an attempt that failed")
	}
	want(t, r.run(job("echo hello > file; echo nonsense >> $SKEIN_OUTPUT", "*")), Failed, CauseOutput, "line 1")
	if kept(own) != 0 {
		t.Error("something was kept of an attempt whose outputs are wrong")
	}
	got := r.run(job("echo n=1 >> $SKEIN_OUTPUT", "file"))
	want(t, got, Failed, CauseArtifacts, "artifact file does not exist")
	if got.Outputs != nil || got.ExitCode != 0 {
		t.Errorf("%+v", got)
	}

	slow := slowStore{Folder: own, begun: make(chan artifact.Ref, 2)}
	r = newRig(t, func(c *Config) { c.Store = func(string) artifact.Store { return slow } })
	late := job("echo hello > file", "file")
	late.Timeout = 200 * time.Millisecond
	want(t, r.run(late), Failed, CauseTimeout, "while its artifacts were stored")
	<-slow.begun
	stopped := job("echo hello > file", "file")
	go func() {
		<-slow.begun
		r.Stop(stopped.Key, ModeTerm)
	}()
	want(t, r.run(stopped), Stopped, CauseStopped, "while its artifacts were stored")
}

// TestArtifactsOfTheWorkingFolder checks that an attempt keeps the files of the folder in which it began, and
// that it fails if the task moved or removed that folder. No files of a system folder or of the data folder
// may be kept, whatever the task names.
func TestArtifactsOfTheWorkingFolder(t *testing.T) {
	r := newRig(t)
	key := Key{Namespace: "default", Workflow: "w", RunID: "place", Task: "a"}
	job := func(dir, command string, globs ...string) Job {
		key.Attempt++
		return Job{Key: key, Dir: dir, Argv: []string{"sh", "-c", command}, Artifacts: globs}
	}
	kept := func() string {
		t.Helper()
		ref := artifact.Ref{Run: artifact.Run{Namespace: "default", Workflow: "w", ID: "place"}, Task: "a", Attempt: key.Attempt}
		list, err := artifact.Folder{Path: r.data}.List(t.Context(), ref)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		all := ""
		for _, in := range list {
			file, _, err := artifact.Folder{Path: r.data}.Open(t.Context(), ref, in.Name)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(io.NewSectionReader(file, 0, in.Size))
			if err != nil {
				t.Fatal(err)
			}
			_ = file.Close()
			all += in.Name + "=" + string(text)
		}
		return all
	}
	other, own, linked := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "linked")
	if err := os.Mkdir(filepath.Join(r.data, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{filepath.Join(other, "file"): "stolen", filepath.Join(own, "file"): "own", filepath.Join(r.data, "secrets", "s"): "secret"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(r.data, linked); err != nil {
		t.Fatal(err)
	}
	swap := `d=$(pwd); mv "$d" "$d.old" && ln -s ` + other + ` "$d"`
	const moved = "moved or removed its working directory"
	for _, job := range []Job{job("", swap, "file"), job("", "echo mine > file; "+swap, "*"), job(own, swap, "file"),
		job("", `d=$(pwd); rm -rf "$d"; mkdir "$d"; cd "$d"; echo new > file`, "*")} {
		want(t, r.run(job), Failed, CauseArtifacts, moved)
		if got := kept(); got != "" {
			t.Errorf("kept %q", got)
		}
	}
	want(t, r.run(job(own+".old", "true", "file")), Succeeded, "", "")
	if got := kept(); got != "file=own" {
		t.Errorf("kept %q", got)
	}
	// The link to the folder may change, because the task runs in the folder itself.
	current := filepath.Join(t.TempDir(), "current")
	if err := os.Symlink(own+".old", current); err != nil {
		t.Fatal(err)
	}
	want(t, r.run(job(current, "ln -sfn "+other+" "+current, "file")), Succeeded, "", "")
	if got := kept(); got != "file=own" {
		t.Errorf("kept %q", got)
	}
	for dir, name := range map[string]string{"/": "etc/passwd", "/etc": "passwd", r.data: "secrets/s",
		filepath.Dir(r.data): filepath.Base(r.data) + "/secrets/s", linked: "secrets/s"} {
		want(t, r.run(job(dir, "true", name)), Failed, CauseArtifacts, "cannot be an artifact")
		want(t, r.run(job(dir, "true", filepath.Dir(name)+"/"+filepath.Base(name)[:1]+"*")), Failed, CauseArtifacts, "cannot be an artifact")
		if got := kept(); got != "" {
			t.Errorf("%s: kept %q", dir, got)
		}
	}
}

// TestArtifactsOfSharedMemory checks that a task can keep files in /dev/shm. No other path below /dev is a
// regular file.
func TestArtifactsOfSharedMemory(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "skein-test-")
	if err != nil {
		t.Skipf("this machine has no shared memory: %v", err)
	}
	defer os.RemoveAll(dir)
	r := newRig(t)
	key := Key{Namespace: "default", Workflow: "w", RunID: "shm", Task: "a", Attempt: 1}
	want(t, r.run(Job{Key: key, Dir: dir, Argv: []string{"sh", "-c", "echo x > file"}, Artifacts: []string{"file"}}), Succeeded, "", "")
	key.Attempt++
	want(t, r.run(Job{Key: key, Dir: "/dev", Argv: []string{"true"}, Artifacts: []string{"null"}}), Failed, CauseArtifacts, "not a regular file")
}
