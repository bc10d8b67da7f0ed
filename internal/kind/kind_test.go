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

// say is a kind that does what a test says.
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
