package jobtest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/kind"
)

// Attempt executes an attempt in the process of the test.
type Attempt struct {
	Env         kind.Env
	Output, Log bytes.Buffer
	handle      string
}

// NewAttempt returns an attempt with the given input.
func NewAttempt(t testing.TB, token int64, with any) *Attempt {
	t.Helper()
	text, err := json.Marshal(with)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := json.Marshal(egress.Rules{Policies: []string{egress.Any}})
	if err != nil {
		t.Fatal(err)
	}
	a := &Attempt{handle: filepath.Join(t.TempDir(), "handle")}
	a.Env = kind.Env{Input: kind.Input{With: text, Egress: rules, Namespace: "default", Workflow: "w", Run: "r", Task: "t", Token: token, Key: "r/t"},
		Files: filepath.Join(t.TempDir(), "out"), Output: &a.Output, Stdout: &a.Log, Stderr: &a.Log}
	return a
}

// Main executes the attempt and returns its exit code. earlier are the attempts before it.
func (a *Attempt) Main(t testing.TB, ctx context.Context, k kind.Kind, earlier ...kind.Earlier) int {
	t.Setenv("SKEIN_HANDLE", a.handle)
	a.Env.Earlier = earlier
	return k.Main(ctx, &a.Env)
}

// Begin executes the attempt in the background. The returned channel receives its exit code.
func (a *Attempt) Begin(t testing.TB, ctx context.Context, k kind.Kind, earlier ...kind.Earlier) <-chan int {
	code := make(chan int, 1)
	go func() { code <- a.Main(t, ctx, k, earlier...) }()
	return code
}

// Until waits for a condition.
func Until(t testing.TB, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain")
		}
	}
}

// Handle returns the handle of the attempt, or "" if it has none.
func (a *Attempt) Handle() string {
	text, _ := os.ReadFile(a.handle)
	return strings.TrimSpace(string(text))
}

// Lost describes a lost attempt to the next attempt. If handle is "", the lost attempt had no handle.
func Lost(token int64, handle string) kind.Earlier {
	e := kind.Earlier{Token: token, End: "lost"}
	if handle != "" {
		e.Handle = &handle
	}
	return e
}
