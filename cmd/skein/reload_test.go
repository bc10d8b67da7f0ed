//go:build linux

package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// says waits for a line of the log that holds all parts.
func (p *process) says(parts ...string) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("a line with %q", parts), func() bool {
		for line := range strings.Lines(p.log.String()) {
			found := true
			for _, part := range parts {
				found = found && strings.Contains(line, part)
			}
			if found {
				return true
			}
		}
		return false
	})
}

// hangUp sends HUP, and waits for the log line with this code that reports the end of the reload.
func (p *process) hangUp(code string) {
	p.t.Helper()
	before := strings.Count(p.log.String(), "code="+code)
	p.signal(syscall.SIGHUP)
	p.eventually("a line with the code "+code, func() bool { return strings.Count(p.log.String(), "code="+code) > before })
}

// TestServerReloads: HUP puts the log level, pass_env and retention into force, names what needs a restart, and changes
// nothing if the file has an error.
func TestServerReloads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := w.write("config.yaml", "log_level: warn\npass_env: [ALPHA]\nslots: 3\n")
	w.env = append(w.env, "ALPHA=one", "BETA=two")
	p := w.server("--config", config, "--drain", "7s")
	p.apply("show", `  a: {run: 'echo "$ALPHA-$BETA-"'}`)
	show := func() string {
		t.Helper()
		_, run := p.ask(http.MethodPost, "/api/v1/runs", map[string]string{"Content-Type": "application/json"}, strings.NewReader(`{"workflow": "show"}`))
		_, id, _ := strings.Cut(run, `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		p.ends(id)
		return p.logOf(id, "a", 1)
	}
	if got := show(); got != "one--\n" {
		t.Errorf("before: %q", got)
	}
	show()

	w.write("config.yaml", "log_level: loud\npass_env: [BETA]\n")
	p.hangUp("reload_failed")
	p.says("code=reload_failed", "log_level", "loud")
	if got := show(); got != "one--\n" {
		t.Errorf("after a bad file: %q", got)
	}

	w.write("config.yaml", "log_level: debug\npass_env: [ALPHA, BETA]\nslots: 5\ndrain: 9s\nretention_runs: 1\n")
	p.hangUp("settings_need_restart")
	p.says("code=settings_need_restart", "settings=slots") // the flag --drain still overrides the file
	p.says("code=setting_changed", "setting=log_level", "from=warn", "to=debug")
	p.says("code=setting_changed", "setting=pass_env", "from=ALPHA", "to=ALPHA,BETA")
	p.says("code=setting_changed", "setting=retention_runs", "from=1000", "to=1")
	if got := show(); got != "one-two-\n" {
		t.Errorf("after: %q", got)
	}
	p.eventually("the older runs are deleted", func() bool {
		_, list := p.ask(http.MethodGet, "/api/v1/runs?workflow=show", nil, nil)
		return strings.Count(list, `"id":"`) <= 2 // the last run may have ended after the cleaning pass
	})

	w.write("config.yaml", "slots: 3\n")
	p.hangUp("setting_changed")
	p.says("setting=log_level", "from=debug", "to=info")
	p.says("setting=retention_runs", "from=1", "to=1000")
	p.says("setting=pass_env", "from=ALPHA,BETA")
	p.hangUp("settings_unchanged")
	p.stop()
}

// TestServerReloadsItsCertificate: after HUP the node shows the new certificate, although the time of the
// file is the same. A certificate that does not match its key changes nothing.
func TestServerReloadsItsCertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cert, key := w.certificate()
	old, err := os.Stat(cert)
	if err != nil {
		t.Fatal(err)
	}
	p := w.start("server", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key)
	p.ready()
	serial := func() string {
		t.Helper()
		conn, err := tls.Dial("tcp", strings.TrimPrefix(strings.Replace(p.url, "localhost", "127.0.0.1", 1), "https://"),
			&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test compares the certificate itself
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	w.write("key.pem", "no key")
	p.hangUp("reload_failed")
	if serial() != first {
		t.Error("a broken pair is shown")
	}
	w.certificate()
	if err := os.Chtimes(cert, old.ModTime(), old.ModTime()); err != nil {
		t.Fatal(err)
	}
	p.hangUp("settings_unchanged")
	if serial() == first {
		t.Error("the former certificate is shown")
	}
}

// TestWorkerReloads: a worker reads its settings at HUP, even if no node answers.
func TestWorkerReloads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := w.write("config.yaml", "log_level: warn\n")
	w.env = append(w.env, "SKEIN_TOKEN_FILE="+w.secret("token", "skein_worker_x"))
	p := w.start("worker", "--server", "http://127.0.0.1:1", "--config", config)
	p.says("level=WARN") // the worker has found no node
	w.write("config.yaml", "log_level: info\npass_env: BETA\nslots: 5\n")
	w.secret("token", "skein_worker_y") // the worker reads it again by itself
	p.hangUp("settings_need_restart")
	p.says("code=setting_changed", "setting=log_level", "from=warn", "to=info")
	p.says("code=setting_changed", "setting=pass_env", "to=BETA")
	p.says("code=settings_need_restart", "settings=slots\n")
	p.stop()
}

// TestDevEndsWithItsTerminal: HUP ends skein dev as TERM does. With nohup the signal is ignored.
func TestDevEndsWithItsTerminal(t *testing.T) {
	t.Parallel()
	// A child does not inherit that this process ignores HUP, as under nohup, if this process handles it.
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, syscall.SIGHUP)
	defer signal.Stop(hups)
	w := newWorld(t)
	p := w.start("dev")
	p.ready()
	p.signal(syscall.SIGHUP)
	if code := p.wait(); code != exitOK || !strings.Contains(p.log.String(), "stopping;") {
		t.Errorf("exit %d: %s", code, p.log)
	}
	kept := &process{world: w, log: &transcript{}, ended: make(chan struct{})}
	kept.cmd = w.command()
	kept.cmd.Path, kept.cmd.Args = "/bin/sh", []string{"sh", "-c", `trap "" HUP; exec "$0" dev`, filepath.Join(w.dir, "skein")}
	kept.cmd.Stdout, kept.cmd.Stderr = kept.log, kept.log
	if err := kept.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = kept.cmd.Wait()
		close(kept.ended)
	}()
	t.Cleanup(kept.kill)
	kept.ready()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", kept.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, ignored, _ := strings.Cut(string(status), "SigIgn:")
	ignored, _, _ = strings.Cut(strings.TrimSpace(ignored), "\n")
	var mask uint64
	if _, err := fmt.Sscanf(ignored, "%x", &mask); err != nil || mask&(1<<(syscall.SIGHUP-1)) == 0 {
		t.Errorf("the ignored signals are %q, %v", ignored, err)
	}
	kept.stop()
}
