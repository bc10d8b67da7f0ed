//go:build linux

package main

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	api "skein.dev/skein/sdk/api/v1"
)

// TestLoginByCode: a session in a browser makes a code for skein login on a machine without one. The session
// of the command line ends with that of the browser.
func TestLoginByCode(t *testing.T) {
	w := newWorld(t)
	p := w.server()
	says := func(args ...string) string {
		t.Helper()
		got := w.skein(append([]string{"--server", p.url}, args...)...)
		w.expect(got, exitOK, nil, args)
		return got.out
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	t.Cleanup(browser.CloseIdleConnections)
	call := func(method, path, body string) (made api.SignInCode) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, p.url+api.Prefix+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", p.url)
		req.Header.Set("Content-Type", "application/json")
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			t.Fatalf("%s %s: %s", method, path, resp.Status)
		}
		if path == "/session:code" {
			if err := json.NewDecoder(resp.Body).Decode(&made); err != nil {
				t.Fatal(err)
			}
		}
		return made
	}
	_, code, _ := strings.Cut(strings.TrimSpace(says("open", "--print")), "#code=")
	call("POST", "/session", `{"code":"`+code+`"}`)
	made := call("POST", "/session:code", "{}")
	login := w.command("login", p.url, "--code")
	login.Stdin = strings.NewReader(made.Code + "\n")
	if got := w.call(login); got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	if out := says("whoami"); !strings.Contains(out, "by the session of local") {
		t.Error(out)
	}
	again := w.command("login", p.url, "--code")
	again.Stdin = strings.NewReader(made.Code + "\n")
	if got := w.call(again); got.code == exitOK {
		t.Errorf("a code counts twice: %+v", got)
	}
	if out := says("whoami"); !strings.Contains(out, "by the session of local") {
		t.Error(out)
	}
	call("DELETE", "/session", "")
	if got := w.skein("--server", p.url, "whoami"); got.code == exitOK || !strings.Contains(got.err, "skein login") {
		t.Errorf("after the end of the browser's session: %+v", got)
	}
}
