package app

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/retention"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestArtifacts reads artifacts of a task over REST, whole and in part. They are deleted with their run.
func TestArtifacts(t *testing.T) {
	c := testConfig(t, nil)
	n, k, stop := startNode(t, c)
	defer stop()
	const text = "name: w\nretention: {runs: 1}\ntasks:\n  a: {run: 'mkdir -p out/x; echo \"<script>\" > out/x/p.html', artifacts: ['out/**']}\n"
	if _, err := k.Apply(t.Context(), "w", api.ApplyRequest{Source: text}); err != nil {
		t.Fatal(err)
	}
	start := func() string {
		t.Helper()
		run, _, err := k.Start(t.Context(), api.RunRequest{Workflow: "w"}, skein.Wait(time.Minute))
		if err != nil || run.State != "succeeded" {
			t.Fatalf("%v %v", run.State, err)
		}
		return run.ID
	}
	id := start()
	list, err := k.Artifacts(t.Context(), id, "a", 0)
	if err != nil || len(list) != 1 || list[0].Name != "out/x/p.html" || list[0].Size != 9 || list[0].Attempt != 1 {
		t.Fatalf("%v %v", list, err)
	}
	a, err := k.Artifact(t.Context(), id, "a", "out/x/p.html", skein.ArtifactQuery{Offset: 1})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(a)
	if err != nil || string(rest) != "script>\n" || a.SHA256 != list[0].SHA256 || a.Attempt != 1 || a.Close() != nil {
		t.Errorf("%q %v %v", rest, a, err)
	}
	at := n.URL() + "/api/v1/runs/" + id + "/tasks/a/artifacts/out%2Fx%2Fp.html"
	for _, q := range []struct {
		span   string
		status int
	}{{"", 200}, {"bytes=2-4", 206}, {"bytes=100-", 416}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		n.asUser(req)
		if q.span != "" {
			req.Header.Set("Range", q.span)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != q.status {
			t.Errorf("%s: %d %s", q.span, resp.StatusCode, body)
		}
		h := resp.Header
		if q.status < 300 && (h.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment")) {
			t.Errorf("a browser would show it: %v", h)
		}
	}
	if _, err := k.Artifact(t.Context(), id, "a", "out/x", skein.ArtifactQuery{}); !errors.Is(err, skein.ErrNotFound) {
		t.Errorf("a folder: %v", err)
	}
	if _, err := k.Artifacts(t.Context(), id, "a", 7); !errors.Is(err, skein.ErrNotFound) {
		t.Errorf("no such attempt: %v", err)
	}
	second := start()
	if err := retention.New(n.retention()).Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(c.Data, "artifacts", "default", "w")
	if _, err := os.Stat(filepath.Join(folder, id)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its run is gone, its artifacts are not: %v", err)
	}
	if _, err := os.Stat(filepath.Join(folder, second)); err != nil {
		t.Error(err)
	}
}
