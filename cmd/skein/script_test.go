//go:build linux

package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary the program itself when a script, or a test, calls it as skein.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "kind" { // a keeper starts its own program, which is this test binary
		main()
	}
	testscript.Main(m, map[string]func(){"skein": main, "sdk-worker": sdkWorker})
}

// TestScripts runs the stories in testdata on the real program, each with a home of its own.
func TestScripts(t *testing.T) {
	// At its end, a script sends SIGINT to its background commands and waits for them. A shell can have started
	// this test with SIGINT ignored, and the commands would inherit that.
	if signal.Ignored(os.Interrupt) {
		caught := make(chan os.Signal, 1)
		signal.Notify(caught, os.Interrupt)
		t.Cleanup(func() { signal.Stop(caught) })
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			// Tasks cannot make files in a folder that holds the data folder or the home folder, so these are elsewhere.
			own := e.WorkDir + "-own"
			for _, name := range []string{"home", "data", "config"} {
				if err := os.MkdirAll(filepath.Join(own, name), 0o700); err != nil {
					return err
				}
				if err := os.Symlink(filepath.Join(own, name), filepath.Join(e.WorkDir, name)); err != nil {
					return err
				}
			}
			e.Vars = append(e.Vars, "HOME="+own+"/home", "XDG_DATA_HOME="+own+"/data", "XDG_CONFIG_HOME="+own+"/config",
				"SKEIN_LISTEN=127.0.0.1:0", "SKEIN_RECOVERY=off", "SKEIN_NAME=testnode", "TERM=dumb")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     cmdExits,
			"await":     cmdAwait,
			"signal":    cmdSignal,
			"same-keys": cmdSameKeys,
		},
	})
}

// awaitMax ends a script that would wait for ever. It checks nothing about time, because it is far longer
// than every step takes.
const awaitMax = 2 * time.Minute

// cmdExits: exits CODE program args… – the program must end with exactly that code.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE program args…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// cmdAwait: await PATTERN program args… – runs the program again and again until its stdout contains the
// text. The other form is: await file PATH.
func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await TEXT program args…, or await file PATH")
	}
	for began := time.Now(); time.Since(began) < awaitMax; time.Sleep(10 * time.Millisecond) {
		if args[0] == "file" {
			if _, err := os.Stat(ts.MkAbs(args[1])); err == nil {
				return
			}
			continue
		}
		if ts.Exec(args[1], args[2:]...) == nil && strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
	}
	ts.Fatalf("still no %q", args[0])
}

// cmdSignal: signal NAME FILE – sends a signal to the process whose pid is in the file (or the lock file).
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal INT|TERM|KILL FILE")
	}
	signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}
	text := strings.TrimSpace(ts.ReadFile(args[1]))
	if _, after, ok := strings.Cut(text, `"pid":`); ok {
		text, _, _ = strings.Cut(after, ",")
	}
	pid, err := strconv.Atoi(strings.Trim(text, "} \n"))
	ts.Check(err)
	ts.Check(syscall.Kill(pid, signals[args[0]]))
}

// cmdSameKeys: same-keys FILE KEYS – the objects of a JSON text have these keys, in order, at the top.
func cmdSameKeys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: same-keys FILE k,k,…")
	}
	keys, err := topKeys(ts.ReadFile(args[0]))
	ts.Check(err)
	for want := range strings.SplitSeq(args[1], ",") {
		if !strings.Contains(","+keys+",", ","+want+",") {
			ts.Fatalf("there is no %q among %s", want, keys)
		}
	}
}

// topKeys returns the keys of a JSON object in the order of the text.
func topKeys(text string) (string, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	var keys []string
	depth, key := 0, true
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			return strings.Join(keys, ","), nil
		}
		if err != nil {
			return "", err
		}
		switch d, isDelim := tok.(json.Delim); {
		case isDelim && (d == '{' || d == '['):
			depth++
		case isDelim:
			if depth--; depth == 1 {
				key = true
			}
		case depth == 1 && key:
			keys, key = append(keys, tok.(string)), false
		case depth == 1:
			key = true
		}
	}
}
