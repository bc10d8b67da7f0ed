package app

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/blob/blobtest"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/retention"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestArtifactsInObjects checks that the artifacts of a node are stored as objects, that later tasks get
// them, and that they are deleted with their run. While the store is away a success waits, a stop ends the
// wait, and reads are refused.
func TestArtifactsInObjects(t *testing.T) {
	server := blobtest.Serve(t)
	proxy := blobtest.NewProxy(t, server, nil)
	t.Setenv("AWS_ACCESS_KEY_ID", blobtest.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", blobtest.SecretKey)
	c := testConfig(t, map[string]string{"artifacts": server.URL("app", proxy.Address)})
	n, k, stop := startNode(t, c)
	defer stop()
	const text = "name: w\nretention: {runs: 1}\ntasks:\n  a: {run: 'mkdir -p out; echo hello > out/x.txt', artifacts: ['out/**']}\n" +
		"  b: {needs: a, inputs: [a/out/x.txt], run: 'grep hello out/x.txt'}\n"
	if _, err := k.Apply(t.Context(), "w", api.ApplyRequest{Source: text}); err != nil {
		t.Fatal(err)
	}
	start := func(wait time.Duration) api.Run {
		t.Helper()
		run, _, err := k.Start(t.Context(), api.RunRequest{Workflow: "w"}, skein.Wait(wait))
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	first := start(time.Minute)
	if first.State != "succeeded" {
		t.Fatalf("%+v", first)
	}
	read := func() (string, error) {
		a, err := k.Artifact(t.Context(), first.ID, "a", "out/x.txt", skein.ArtifactQuery{})
		if err != nil {
			return "", err
		}
		got, err := io.ReadAll(a)
		return string(got), errors.Join(err, a.Close())
	}
	if got, err := read(); err != nil || got != "hello\n" {
		t.Errorf("%q %v", got, err)
	}
	for _, folder := range []string{"artifacts", "outgoing/artifacts"} {
		if left, _ := filepath.Glob(filepath.Join(c.Data, folder, "*", "*", "*")); len(left) != 0 {
			t.Errorf("on this machine: %q", left)
		}
	}

	proxy.Choose(func(int, *http.Request) blobtest.Fault { return blobtest.Refuse })
	if _, err := read(); !errors.Is(err, skein.ErrUnavailable) {
		t.Errorf("read while the store is away: %v", err)
	}
	waiting, stopped := start(0), start(0)
	for _, run := range []api.Run{waiting, stopped} {
		eventually(t, "artifacts wait", func() bool {
			left, _ := filepath.Glob(filepath.Join(c.Data, "outgoing", "artifacts", "default", "w", run.ID, "a.1"))
			return len(left) == 1
		})
	}
	if _, err := k.StopRun(t.Context(), stopped.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	if run, err := k.WaitRun(t.Context(), stopped.ID); err != nil || run.State != "stopped" {
		t.Errorf("%+v %v", run, err)
	}
	proxy.Choose(nil)
	if run, err := k.WaitRun(t.Context(), waiting.ID); err != nil || run.State != "succeeded" {
		t.Errorf("%+v %v", run, err)
	}
	if err := retention.New(n.retention()).Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	store := server.Open(t, "app", "")
	for _, key := range blobtest.Keys(t, store, "artifacts/") {
		if !strings.HasPrefix(key, "artifacts/default/w/"+waiting.ID+"/a.1/") {
			t.Errorf("left: %s", key)
		}
	}
}

// TestObjectsRefused: a node does not start with credentials that the store refuses, and names the
// credentials that it tried.
func TestObjectsRefused(t *testing.T) {
	server := blobtest.Serve(t)
	t.Setenv("AWS_ACCESS_KEY_ID", blobtest.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	c := testConfig(t, map[string]string{"artifacts": server.URL("app", "")})
	_, err := Open(t.Context(), c, slog.New(slog.DiscardHandler))
	var wrong *config.SettingError
	if !errors.As(err, &wrong) || wrong.Name != "artifacts" || !errors.Is(err, blob.ErrRefused) || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("%v", err)
	}
}

// TestLogsInObjects checks that whole logs are stored as objects, and that they are read from there if the
// machine that wrote them is gone.
func TestLogsInObjects(t *testing.T) {
	server := blobtest.Serve(t)
	t.Setenv("AWS_ACCESS_KEY_ID", blobtest.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", blobtest.SecretKey)
	c := testConfig(t, map[string]string{"logs": server.URL("logs", "")})
	_, k, stop := startNode(t, c)
	const text = "name: w\nretention: {runs: 1}\ntasks:\n  a: {run: 'echo hello'}\n"
	if _, err := k.Apply(t.Context(), "w", api.ApplyRequest{Source: text}); err != nil {
		t.Fatal(err)
	}
	run, _, err := k.Start(t.Context(), api.RunRequest{Workflow: "w"}, skein.Wait(time.Minute))
	if err != nil || run.State != "succeeded" {
		t.Fatalf("%+v %v", run, err)
	}
	store := server.Open(t, "logs", "")
	eventually(t, "the end of the attempt is written", func() bool { return len(blobtest.Keys(t, store, "logs/")) == 1 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := blobtest.Get(t, store, "logs/default/w/"+run.ID+"/a.1/"+strings.Repeat("0", 20), 0, -1); got != "hello\n" {
		t.Errorf("%q", got)
	}
	if err := os.RemoveAll(filepath.Join(c.Data, "logs")); err != nil {
		t.Fatal(err)
	}
	n, k, again := startNode(t, c)
	defer again()
	log, err := k.Logs(t.Context(), run.ID, "a", skein.LogQuery{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(log)
	if err := errors.Join(err, log.Close()); err != nil || string(got) != "hello\n" {
		t.Errorf("%q %v", got, err)
	}
	if _, _, err := k.Start(t.Context(), api.RunRequest{Workflow: "w"}, skein.Wait(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := retention.New(n.retention()).Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if keys := blobtest.Keys(t, store, "logs/default/w/"+run.ID); len(keys) != 0 {
		t.Errorf("left: %q", keys)
	}
}
