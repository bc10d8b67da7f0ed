package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestSecretsOfKinds: a task function gets the secrets of its input. No row, log, message or file contains
// them, and outputs that contain one are refused.
func TestSecretsOfKinds(t *testing.T) {
	c := testConfig(t, nil)
	n, k, stop := startNode(t, c)
	const value, param = "hunter2-of-the-test", "swordfish-of-the-test"
	if _, err := skein.NewSecrets(k).Set(t.Context(), "default", "KEY", value); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 10)
	w := skein.NewWorker(n.URL(), skein.WorkerOptions{Name: "gopher", Slots: 2, Token: n.own.Secret(), Drain: time.Second})
	skein.Handle(w, "spy", func(_ context.Context, task *skein.Task, in struct{ Key, Param, How string }) (map[string]string, error) {
		got <- in.Key + " " + in.Param
		fmt.Fprintf(task, "the key is %.5s", in.Key)
		fmt.Fprintf(task, "%s!\n", in.Key[5:])
		switch in.How {
		case "leak":
			return map[string]string{"key": in.Key}, nil
		case "fail":
			return nil, fmt.Errorf("cannot sign in with %s", in.Param)
		}
		return map[string]string{"n": "7"}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()

	source := "name: w\nparams: {p: secret}\ntasks:\n"
	for _, how := range []string{"use", "leak", "fail"} {
		source += "  " + how + `: {kind: spy, with: {key: "${{ secrets.KEY }}", param: "${{ params.p }}", how: ` + how + "}}\n"
	}
	if _, err := k.Apply(t.Context(), "w", api.ApplyRequest{Source: source}); err != nil {
		t.Fatal(err)
	}
	run, _, err := k.Start(t.Context(), api.RunRequest{Workflow: "w", Params: api.Params{"p": json.RawMessage(`"` + param + `"`)}})
	if err != nil {
		t.Fatal(err)
	}
	is := end(t, k, run.ID)
	for range 3 {
		if all := <-got; all != value+" "+param {
			t.Errorf("a task function got %q", all)
		}
	}
	shown := fmt.Sprintf("%+v", is)
	for _, c := range []struct{ task, cause, says string }{{"use", "", ""}, {"leak", "secret", ""}, {"fail", "error", "cannot sign in with ***"}} {
		task, err := k.Task(t.Context(), run.ID, c.task)
		if err != nil {
			t.Fatal(err)
		}
		shown += fmt.Sprintf("%+v", task)
		text := func(s *string) string {
			if s == nil {
				return ""
			}
			return *s
		}
		cause, message := text(task.Cause), text(task.Message)
		shown += cause + message + string(task.Outputs)
		if cause != c.cause || c.says != "" && message != c.says {
			t.Errorf("%s: cause %q, %q", c.task, cause, message)
		}
	}
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for _, secret := range []string{value, param} {
		if strings.Contains(shown, secret) {
			t.Errorf("an answer shows %s: %s", secret, shown)
		}
	}
	masked := false
	err = filepath.WalkDir(c.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, secret := range []string{value, param} {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s holds %s", path, secret)
			}
		}
		masked = masked || bytes.Contains(text, []byte("the key is ***!"))
		return nil
	})
	if err != nil || !masked {
		t.Errorf("the masked log was found: %v, %v", masked, err)
	}
}
