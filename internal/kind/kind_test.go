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
func attempt(t *testing.T, input string) (output, handle string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{InputVar: input, EarlierVar: `[{"token":1,"end":"lost","handle":"job 7"}]`} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(name, path)
	}
	output, handle = filepath.Join(dir, "out"), filepath.Join(dir, "handle")
	t.Setenv(OutputVar, output)
	t.Setenv(HandleVar, handle)
	return output, handle
}

func TestRun(t *testing.T) {
	output, handle := attempt(t, `{"kind":"say","with":{"n":12345678901234567890},"connection":{"type":"http"},"instant":"2026-11-27T06:00:00Z","run":"r","task":"t","token":3,"key":"r/t"}`)
	code := Run(t.Context(), say(func(_ context.Context, env *Env) int {
		in := env.Input
		if string(in.With) != `{"n":12345678901234567890}` || string(in.Connection) != `{"type":"http"}` || in.Token != 3 || in.Key != "r/t" || in.Instant.Hour() != 6 {
			t.Errorf("%+v", in)
		}
		if len(env.Earlier) != 1 || env.Earlier[0] != (Earlier{1, "lost", "job 7"}) {
			t.Errorf("%+v", env.Earlier)
		}
		for _, line := range []string{"", "a\nb", strings.Repeat("x", HandleMax+1), "\xff"} {
			if env.Handle(line) == nil {
				t.Errorf("%.20q is taken as a handle", line)
			}
		}
		if err := env.Handle("job 8"); err != nil {
			t.Error(err)
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
	if got, _ := os.ReadFile(handle); string(got) != "job 8\n" {
		t.Errorf("%q", got)
	}
}

func TestRunRefuses(t *testing.T) {
	output, _ := attempt(t, `{"with":{}}`)
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
