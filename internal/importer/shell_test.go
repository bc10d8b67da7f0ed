package importer

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestShell runs each script twice: with the value written into the text, as other schedulers do, and with
// the variable in its place. Both must print the same.
func TestShell(t *testing.T) {
	const value = "a value"
	find := func(rest string) (string, int, bool) {
		if strings.HasPrefix(rest, "@@") {
			return "V", 2, false
		}
		return "", 0, false
	}
	for _, script := range []string{
		`echo @@`, `echo "@@"`, `echo '@@'`, `echo 'x @@ y'`, `echo "it's @@"`, `echo 'say "@@"'`, `echo \"@@\"`,
		"cat <<EOF\n@@ 'x @@'\nEOF\necho '@@'", "cat <<-EOF\n\t@@\n\tEOF\necho @@", "echo a # it's @@\necho '@@'",
		`echo "$(echo '@@') @@"`, "echo \"`echo '@@'`\"", `echo "a$(echo "b '@@' $(echo '@@'))")"`, `echo $#'@@'`, `(echo '@@')`,
	} {
		got, err := Shell(script, find)
		if err != nil {
			t.Errorf("%s: %v", script, err)
			continue
		}
		want := run(t, strings.ReplaceAll(script, "@@", value), nil)
		if out := run(t, got, []string{"V=" + value}); out != want {
			t.Errorf("%s\nbecame\n%s\nwhich prints %q, not %q", script, got, out, want)
		}
	}
	for _, script := range []string{"cat <<'EOF'\n@@\nEOF", "cat <<\\EOF\n@@\nEOF", "echo $'@@'"} {
		if got, err := Shell(script, find); err == nil {
			t.Errorf("%s became %s", script, got)
		}
	}
	// The shell must not execute the content of a value.
	got, err := Shell(`echo '@@' "@@"`, find)
	if out := run(t, got, []string{"V='; echo \"$(id)"}); err != nil || out != "'; echo \"$(id) '; echo \"$(id)\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func run(t *testing.T, script string, env []string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// TestCapture checks that the standard output and the files of a program become outputs unchanged, and that
// the task fails if the program fails.
func TestCapture(t *testing.T) {
	dir := t.TempDir()
	result := filepath.Join(dir, "out")
	for _, r := range []Run{
		{Shell: `printf 'a "b" \\ c\td\n\nüx\n'; printf left > ` + dir + `/file`},
		{Lang: "bash", Code: `x=(1 2); printf 'a "b" \\ c\td\n\nüx\n'; printf left > ` + dir + `/file`},
		{Argv: []string{"sh", "-c", `printf 'a "b" \\ c\td\n\nüx\n'; printf left > ` + dir + `/file`}},
	} {
		task := Task{Run: r}
		task.Capture("result", []FileOutput{{Name: "f", Path: dir + "/file"}, {Name: "g", Path: dir + "/none", Default: "dflt", Optional: true}})
		task.capture.write(&task)
		run(t, task.Run.Shell, []string{"SKEIN_OUTPUT=" + result})
		data, err := os.ReadFile(result)
		var got map[string]string
		if err != nil || json.Unmarshal(data, &got) != nil || got["result"] != "a \"b\" \\ c\td\n\nüx" || got["f"] != "left" || got["g"] != "dflt" {
			t.Errorf("%s\n%q %v", task.Run.Shell, data, err)
		}
	}
	list := Task{Run: Run{Shell: `echo '["a", {"b": 1}]'`}}
	list.Capture("result", nil)
	if name := list.AsList("result"); name != "result_list" || list.AsList("result") != name || len(list.Outputs) != 2 {
		t.Error(name, list.Outputs)
	}
	list.capture.write(&list)
	run(t, list.Run.Shell, []string{"SKEIN_OUTPUT=" + result})
	var both struct {
		Result string `json:"result"`
		List   []any  `json:"result_list"`
	}
	if data, err := os.ReadFile(result); err != nil || json.Unmarshal(data, &both) != nil || both.Result != `["a", {"b": 1}]` || len(both.List) != 2 {
		t.Errorf("%q %v", data, err)
	}
	task := Task{Run: Run{Shell: "exit 7"}}
	task.Capture("result", nil)
	task.capture.write(&task)
	err := exec.Command("sh", "-c", task.Run.Shell).Run()
	if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != 7 {
		t.Error(err)
	}
}
