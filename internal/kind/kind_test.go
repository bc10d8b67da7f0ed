package kind

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// say is a kind whose Main is a function of the test.
type say func(ctx context.Context, env *Env) int

func (say) Name() string                             { return "say" }
func (s say) Main(ctx context.Context, env *Env) int { return s(ctx, env) }

// attempt sets the variables and files of an attempt, and returns the path of its outputs.
func attempt(t *testing.T, input string) (output string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "input")
	if err := os.WriteFile(path, []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(InputVar, path)
	output = filepath.Join(dir, "out")
	t.Setenv(OutputVar, output)
	return output
}

func TestRun(t *testing.T) {
	output := attempt(t, `{"kind":"say","with":{"n":12345678901234567890},"connection":{"type":"http"},"instant":"2026-11-27T06:00:00Z","run":"r","task":"t","token":3,"key":"r/t"}`)
	code := Run(t.Context(), say(func(_ context.Context, env *Env) int {
		in := env.Input
		if string(in.With) != `{"n":12345678901234567890}` || string(in.Connection) != `{"type":"http"}` || in.Token != 3 || in.Key != "r/t" || in.Instant.Hour() != 6 {
			t.Errorf("%+v", in)
		}
		if err := env.Set("rows", 1); err != nil {
			t.Error(err)
		}
		fmt.Fprintln(env.Output, `{"rows":2,"name":"a"}`)
		return Done
	}))
	if got, _ := os.ReadFile(output); code != Done || !json.Valid(got) || string(got) != `{"name":"a","rows":2}` {
		t.Errorf("%d, %s", code, got)
	}
}

func TestRunRefuses(t *testing.T) {
	output := attempt(t, `{"with":{}}`)
	for want, main := range map[int]say{
		Away:   func(_ context.Context, env *Env) int { _ = env.Set("a", 1); return Away },
		Failed: func(_ context.Context, env *Env) int { fmt.Fprintln(env.Output, "[1]"); return Done },
	} {
		if code := Run(t.Context(), main); code != want {
			t.Errorf("%d, want %d", code, want)
		}
	}
	if _, err := os.Stat(output); err == nil {
		t.Error("an attempt that failed has outputs")
	}
	never := say(func(context.Context, *Env) int { t.Error("it ran without its input"); return Done })
	for _, input := range []string{`{`, `[]`, strings.Repeat(" ", inputMax+1)} {
		attempt(t, input)
		if code := Run(t.Context(), never); code != Permanent {
			t.Errorf("%.20q: %d", input, code)
		}
	}
	t.Setenv(InputVar, "")
	if code := Run(t.Context(), never); code != Permanent {
		t.Error(code)
	}
}

// ends is a kind that implements Releaser.
type ends struct{ say }

func (e ends) Release(ctx context.Context, env *Env) int { return e.Main(ctx, env) }
func (ends) Adopts() bool                                { return true }

// TestHandle checks that an attempt learns about the work of earlier attempts, and names its own. The process
// of an errand gets a handle.
func TestHandle(t *testing.T) {
	output := attempt(t, `{"kind":"say","key":"r/t"}`)
	earlier := output + ".earlier"
	if err := os.WriteFile(earlier, []byte(`[{"token":1,"end":"lost","handle":null},{"token":2,"end":"failed","handle":null},{"token":3,"end":"lost","handle":"job-3","orphan":true},{"token":4,"end":"lost","handle":"job-4"},{"token":5,"end":"lost","handle":null}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(earlierVar, earlier)
	t.Setenv(handleVar, output+".handle")
	k := ends{func(_ context.Context, env *Env) int {
		lost := env.Lost()
		if len(lost) != 2 || lost[0].Token != 5 || lost[1].Token != 4 || *lost[1].Handle != "job-4" {
			t.Errorf("%v", env.Earlier)
		}
		if env.Earlier = env.Earlier[:3]; len(env.Lost()) != 0 {
			t.Error("work that is being released goes on")
		}
		if err := env.SetHandle("job-5"); err != nil {
			t.Error(err)
		}
		return Done
	}}
	if code := Run(t.Context(), k); code != Done {
		t.Error(code)
	}
	if text, err := os.ReadFile(output + ".handle"); err != nil || string(text) != "job-5\n" {
		t.Errorf("%q, %v", text, err)
	}
	if code := RunRelease(t.Context(), k); code != Permanent {
		t.Errorf("an errand without a handle: %d", code)
	}
	t.Setenv(earlierVar, "")
	attempt(t, `{"kind":"say","handle":"job-4"}`)
	k.say = func(_ context.Context, env *Env) int {
		if env.Input.Handle != "job-4" {
			t.Error(env.Input.Handle)
		}
		return Failed
	}
	if code := RunRelease(t.Context(), k); code != Failed {
		t.Error(code)
	}
}
