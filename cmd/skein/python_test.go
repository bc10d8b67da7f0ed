//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// makeWheel writes a package of the name demo into a folder, and prints its hash.
const makeWheel = `
import sys, zipfile, hashlib
path = sys.argv[1] + "/demo-1.0-py3-none-any.whl"
with zipfile.ZipFile(path, "w") as z:
    z.writestr("demo.py", "answer = 42\n")
    z.writestr("demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
    z.writestr("demo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr("demo-1.0.dist-info/RECORD", "demo.py,,\ndemo-1.0.dist-info/METADATA,,\ndemo-1.0.dist-info/WHEEL,,\ndemo-1.0.dist-info/RECORD,,\n")
print(hashlib.sha256(open(path, "rb").read()).hexdigest(), end="")
`

const reportProgram = `
import demo, os, sys
print(demo.answer, sys.argv[1])
print("rows=%d" % demo.answer, file=open(os.environ["SKEIN_OUTPUT"], "a"))
try:
    open(demo.__file__, "a").write("#")
    print("changed")
except OSError as e:
    print(type(e).__name__)
`

// TestPythonTask: a program runs behind the fence with its packages. The next attempt uses the same
// environment. No task can change it, and another task cannot read it.
func TestPythonTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := os.Mkdir(filepath.Join(w.dir, "shop"), 0o755); err != nil {
		t.Fatal(err)
	}
	hash, err := exec.Command("/usr/bin/python3", "-c", "import venv, ensurepip\n"+makeWheel, filepath.Dir(w.write("shop/report.py", reportProgram))).CombinedOutput()
	if err != nil {
		t.Fatalf("run make tools (Debian's package python3-venv): %v: %s", err, hash)
	}
	p := w.server("--isolation", "fence")
	w.write("shop/requirements.txt", "demo==1.0 --hash=sha256:"+string(hash)+"\n")
	file := w.write("shop/report.yaml", `name: report
files: [report.py, requirements.txt, "*.whl"]
params: {day: {type: string, default: monday}}
tasks:
  first:
    python: {file: report.py, args: ["${{ params.day }}"], interpreter: /usr/bin/python3, requirements: requirements.txt, wheels: .}
    outputs: {rows: int}
  second:
    needs: first
    python: {code: "import demo, os, sys; sys.exit(int(os.environ['ROWS']) + 33)", interpreter: /usr/bin/python3, requirements: requirements.txt, wheels: .}
    env: {ROWS: "${{ tasks.first.outputs.rows }}"}
  other: {run: 'ls `+filepath.Join(w.data, "kinds")+`', needs: first}
`)
	if o := w.skein("workflow", "apply", file); o.code != exitOK {
		t.Fatal(o)
	}
	run := p.wantState(p.begin("report", nil), "failed")
	if log := p.logOf(run.ID, "first", 1); !strings.Contains(log, "was built in") || !strings.HasSuffix(log, "42 monday\nPermissionError\n") {
		t.Errorf("%q", log)
	}
	second, other := taskOf(t, &run, "second"), taskOf(t, &run, "other")
	if log := p.logOf(run.ID, "second", 1); log != "" || deref(second.Cause) != "exit" || deref(second.Message) != "exit code 75" {
		t.Errorf("%q, %s: %s", log, deref(second.Cause), deref(second.Message))
	}
	if deref(other.Cause) != "exit" || !strings.Contains(deref(other.Message), "protected") {
		t.Errorf("%s: %s", deref(other.Cause), deref(other.Message))
	}
}
