//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestBadSettings: every invalid setting is refused with its name and the right exit code, before anything is
// done.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, f := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "slots", []string{"server", "--slots", "0"}},
		{exitUsage, "slots", []string{"server", "--slots", "-1"}},
		{exitUsage, "slots", []string{"server", "--slots", "99999999999999999999"}},
		{exitUsage, "slots", []string{"server", "--slots", "10001"}},
		{exitUsage, "slots", []string{"server", "--slots", ""}},
		{exitUsage, "drain", []string{"server", "--drain", "soon"}},
		{exitUsage, "drain", []string{"server", "--drain", "-5s"}},
		{exitUsage, "log_level", []string{"server", "--log-level", "loud"}},
		{exitUsage, "log_format", []string{"server", "--log-format", "xml"}},
		{exitUsage, "name", []string{"server", "--name", "a b"}},
		{exitUsage, "name", []string{"server", "--name", strings.Repeat("n", 101)}},
		{exitUsage, "--advertise https://", []string{"server", "--db", "postgres://nobody@127.0.0.1:1/x", "--listen", "0.0.0.0:0", "--tls-cert", "c", "--tls-key", "k"}},
		{exitUsage, "--advertise http://", []string{"server", "--db", "postgres://nobody@127.0.0.1:1/x", "--listen", ":0", "--insecure-plaintext"}},
		{exitUsage, `"a b" is not the name of a group`, []string{"worker", "--group", "a b", "--server", "http://127.0.0.1:1"}},
		{exitUsage, "name of a group", []string{"server", "--group", "a,b\tc"}},
		{exitUsage, "name of a group", []string{"worker", "--group", strings.Repeat("g", 101)}},
		{exitUsage, "not a label", []string{"worker", "--label", "disk=s d"}},
		{exitUsage, "the path of a folder is missing", []string{"server", "--data", ""}},
		{exitUsage, `"ftp://x" is not a URL`, []string{"worker", "--server", "http://127.0.0.1:1,ftp://x"}},
		{exitUsage, `"http://" is not a URL`, []string{"worker", "--server", "http://"}},
		{exitUsage, `"a b" is not a URL`, []string{"worker", "--server", "a b"}},
		{exitUsage, "db needs a verb: backup", []string{"db"}},
		{exitUsage, "--timeout -5s: use a length of time", []string{"run", "list.yaml", "--timeout", "-5s"}},
		{exitUsage, "not a label", []string{"worker", "--label", "=ssd"}},
		{exitUsage, "101 groups are too many", []string{"worker", "--group", commas(101)}},
		{exitUsage, "pass_env", []string{"server", "--pass-env", "SKEIN_TOKEN"}},
		{exitUsage, "pass_env", []string{"server", "--pass-env", "A=B"}},
		{exitUsage, "db", []string{"server", "--db", "mysql://x"}},
		{exitUsage, "egress", []string{"server", "--egress", "10.0.0.1/8"}},
		{exitUsage, "egress_proxy", []string{"worker", "--egress-proxy", "proxy:3128"}},
		{exitUsage, "pdf", []string{"status", "-o", "pdf"}},
		{exitUsage, "--server", []string{"status", "--server", "ftp://x"}},
		{exitUsage, "unknown flag", []string{"server", "--nope"}},
		{exitUsage, "unknown command", []string{"serve"}},
		{exitUsage, `skein run needs FILE|NAME; 2 arguments given: "a", "b"`, []string{"run", "a", "b"}},
		{exitUsage, "skein explain needs RUN[/TASK] | WORKFLOW; no argument was given", []string{"explain"}},
		{exitUsage, `skein task mark needs RUN/TASK succeeded|failed; 3 arguments given: "a@latest/b", "succeeded", "hand"`,
			[]string{"task", "mark", "a@latest/b", "succeeded", "--reason", "by", "hand"}},
		{exitUsage, `skein open takes no argument; 6 arguments given: "` + strings.Repeat("x", 60) + `…", "1", "2", "3", "4", …`,
			[]string{"open", strings.Repeat("x", 1000), "1", "2", "3", "4", "5"}},
		{exitUsage, "--timeout x: use a length of time such as 30s", []string{"run", "list.yaml", "--timeout", "x"}},
		{exitUsage, "--limit x: use a whole number", []string{"queue", "set", "q", "--limit", "x"}},
		{exitUsage, "--version 3000000000: use a whole number that is smaller", []string{"run", "a", "--version", "3000000000"}},
		{exitNotAllowed, "--tls-cert", []string{"server", "--listen", "0.0.0.0:0"}},
		{exitNotAllowed, "--tls-cert", []string{"server", "--listen", "[::]:0"}},
		{exitNotAllowed, "--tls-cert", []string{"server", "--listen", ":0"}},
		{exitNotAllowed, "--tls-cert", []string{"dev", "--listen", "10.0.0.1:80"}},
		{exitNotAllowed, "--tls-cert", []string{"server", "--listen", "example.com:80"}},
		{exitUsage, "HOST:PORT", []string{"server", "--listen", "127.0.0.1"}},
		{exitUsage, "HOST:PORT", []string{"server", "--listen", "127.0.0.1:99999"}},
		{exitUsage, "HOST:PORT", []string{"server", "--listen", "127.0.0.1:http"}},
		{exitUnreachable, "127.0.0.1:1", []string{"status", "--server", "http://127.0.0.1:1"}},
	} {
		w.refused(f.code, []string{f.says}, f.args...)
	}
	for setting, says := range map[string]string{
		"SKEIN_SLOTS=many": "SKEIN_SLOTS", "SKEIN_TASKS_MAX=-1": "SKEIN_TASKS_MAX", "SKEIN_TASKS_MAX=1e9": "SKEIN_TASKS_MAX",
		"SKEIN_DRAIN=1": "SKEIN_DRAIN", "SKEIN_DB=x": "SKEIN_DB", "SKEIN_LOG_LEVEL=9": "SKEIN_LOG_LEVEL", "SKEIN_NAME=a b": "SKEIN_NAME",
		"SKEIN_LISTEN=here": "SKEIN_LISTEN",
	} {
		cmd := w.command("server")
		cmd.Env = append(cmd.Env, setting)
		w.expect(w.call(cmd), exitInvalid, []string{says}, []string{setting})
	}
	for content, says := range map[string]string{
		"slots: 0\n": "slots", "slotz: 4\n": "slotz", "[1]\n": "config.yaml", "\x00": "config.yaml", "slots: {a: 1}\n": "slots",
		"lisen: 127.0.0.1:0\n": "there is no such setting; did you mean listen?", "whatever: 1\n": "there is no such setting; there are data, db,",
		"- slots\n": "config.yaml: the file is not a list of settings; write each setting in a line of its own", "slots: [1\n": "config.yaml: line 1: sequence end token ']' not found",
		"a: &a [*a]\n": "config.yaml", "slots: 4\nslots: 5\n": "config.yaml: line 2: mapping key",
	} {
		path := w.write("config.yaml", content)
		o := w.skein("server", "--config", path)
		if o.code != exitInvalid || !strings.Contains(o.err, says) {
			t.Errorf("config file %q: want %d and %q: %v", content, exitInvalid, says, o)
		}
	}
	w.refused(exitNotFound, []string{"gone.yaml"}, "server", "--config", w.dir+"/gone.yaml")
	if _, err := os.Stat(w.data); err == nil {
		t.Error("a command that was refused has made the data folder")
	}
}

// commas returns a list of n names.
func commas(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("g", i)
	}
	return strings.Join(names, ",")
}
