package worker

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"testing"
	"time"

	"skein.dev/skein/internal/artifact"
)

// slowStore takes for ever to read what it is given.
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

// TestArtifactsOfAttempts: artifacts are kept after a success only; that they cannot be fails the attempt, a stop and
// the timeout end the keeping.
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
	want(t, got, Failed, CauseArtifacts, "artifact file is not there")
	if got.Outputs != nil || got.ExitCode != 0 {
		t.Errorf("%+v", got)
	}

	slow := slowStore{Folder: own, begun: make(chan artifact.Ref, 2)}
	r = newRig(t, func(c *Config) { c.Store = func(string) artifact.Store { return slow } })
	late := job("echo hello > file", "file")
	late.Timeout = 200 * time.Millisecond
	want(t, r.run(late), Failed, CauseTimeout, "while its artifacts were kept")
	<-slow.begun
	stopped := job("echo hello > file", "file")
	go func() {
		<-slow.begun
		r.Stop(stopped.Key, ModeTerm)
	}()
	want(t, r.run(stopped), Stopped, CauseStopped, "while its artifacts were kept")
}
