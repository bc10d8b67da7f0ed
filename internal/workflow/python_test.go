package workflow

import (
	"strings"
	"testing"
)

// TestPython: arguments and the address of the index may hold expressions; the program and its packages may
// not.
func TestPython(t *testing.T) {
	lock := "demo==1.0 --hash=sha256:" + strings.Repeat("ab", 32)
	w := must(t, `
name: p
params: {day: {type: string, default: "3"}}
tasks:
  report:
    python: {file: report.py, args: ["${{ params.day }}", "5"], requirements: ["`+lock+`"], index: "https://${{ secrets.USER }}@packages.example/simple"}
    env: {DAY: "${{ params.day }}"}
    access: {read: /srv}
    artifacts: [out.csv]
    outputs: {rows: int}
    retry: {max: 2, on_exit: [7]}
  module: {python: {module: http.server, requirements: requirements.txt, unlocked: true}}
  code: {python: {code: "print('hello')"}}
`)
	if task := &w.Tasks[0]; task.Kind != "python" || !task.House || len(task.With) != 4 || len(task.Env) != 1 {
		t.Errorf("%+v", task)
	}
	if with := w.Tasks[1].With; string(with[1].Value) != `"requirements.txt"` || with[1].Name != "requirements_file" || string(with[2].Value) != "true" {
		t.Errorf("%s", with)
	}
	for source, want := range map[string]string{
		`{requirements: r.txt}`:                                    "",
		`{file: a.py, code: "1"}`:                                  ".code",
		`{file: "${{ params.day }}.py"}`:                           ".file",
		`{code: "print(${{ params.day }})"}`:                       ".code",
		`{file: a.py, requirements: ["demo==1.0"]}`:                ".requirements",
		`{file: a.py, requirements: ["-r more.txt"]}`:              ".requirements",
		`{file: a.py, requirements: ["demo${{ params.day }}"]}`:    ".requirements",
		`{file: a.py, wheels: wheels}`:                             ".wheels",
		`{file: a.py, requirements: r.txt, wheels: w, index: "h"}`: ".wheels",
		`{file: ../a.py}`:                                          ".file",
		`{file: a.py, interpreter: "python3 -c"}`:                  ".interpreter",
	} {
		_, errs := Parse([]byte("name: s\nparams: {day: {type: string, default: x}}\ntasks:\n  a: {python: "+source+"}\n"), Options{})
		if len(errs) == 0 || errs[0].Key != "tasks.a.python"+want {
			t.Errorf("%s: %v", source, errs)
		}
	}
}
