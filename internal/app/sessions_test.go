package app

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	api "skein.dev/skein/sdk/api/v1"
)

// TestSignIn: a browser that has the code of the node's user signs in, calls, and signs out.
func TestSignIn(t *testing.T) {
	n, _, stop := startNode(t, testConfig(t, nil))
	defer func() { _ = stop() }()
	defer http.DefaultClient.CloseIdleConnections()
	var cookie *http.Cookie
	call := func(method, path, body, origin string) (status int, answer string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, n.URL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		if cookie != nil {
			req.AddCookie(cookie)
		}
		req.Header.Set("Accept", "text/html, application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		for _, c := range resp.Cookies() {
			if cookie = c; c.MaxAge < 0 {
				cookie = nil
			}
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	wants := func(status int, method, path, body, origin string) string {
		t.Helper()
		got, answer := call(method, path, body, origin)
		if got != status {
			t.Errorf("%s %s: %d, want %d: %.300s", method, path, got, status, answer)
		}
		return answer
	}
	signIn := func() string { return `{"code":"` + n.sessions.FirstCode() + `"}` }
	wants(200, "GET", "/", "", "")
	wants(200, "GET", "/runs/x", "", "")
	wants(401, "GET", "/api/v1/me", "", "")
	wants(401, "GET", "/api/x", "", "")
	wants(403, "POST", "/api/v1/session", signIn(), "https://evil.example")
	wants(401, "POST", "/api/v1/session", `{"code":"x"}`, "")
	wants(401, "POST", "/api/v1/session", `{"user":"ann","password":"correct horse battery"}`, "")
	wants(422, "POST", "/api/v1/session", `{"code":"x","token":"y"}`, "")
	wants(413, "POST", "/api/v1/session", `{"code":"`+strings.Repeat("x", 5000)+`"}`, "")
	wants(200, "POST", "/api/v1/session", signIn(), n.URL())
	if cookie == nil || cookie.Name != "skein" || !cookie.HttpOnly || cookie.Secure || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.MaxAge <= 0 {
		t.Fatalf("%+v", cookie)
	}
	wants(401, "GET", "/metrics", "", "")
	wants(401, "POST", "/skein.worker.v1.Workers/Poll", `{}`, "")
	wants(401, "POST", "/internal/v1/report", `{}`, "")
	wants(403, "POST", "/api/v1/session:code", "", "https://evil.example")
	var is, other api.Session
	if err := json.Unmarshal([]byte(wants(200, "GET", "/api/v1/session", "", "")), &is); err != nil || is.User != "local" || !is.Current {
		t.Errorf("%+v, %v", is, err)
	}
	first := cookie
	var code api.SignInCode
	if err := json.Unmarshal([]byte(wants(200, "POST", "/api/v1/session:code", "", n.URL())), &code); err != nil {
		t.Error(err)
	}
	cookie = nil
	wants(200, "POST", "/api/v1/session", `{"code":"`+code.Code+`"}`, "")
	// Only a session that did not begin with a code can make codes.
	wants(403, "POST", "/api/v1/session:code", "", n.URL())
	child := cookie
	cookie = nil
	wants(200, "POST", "/api/v1/session", signIn(), "")
	if err := json.Unmarshal([]byte(wants(200, "GET", "/api/v1/session", "", "")), &other); err != nil {
		t.Error(err)
	}
	wants(204, "DELETE", "/api/v1/sessions/"+is.ID, "", "")
	wants(404, "DELETE", "/api/v1/sessions/"+is.ID, "", "")
	own := cookie
	cookie = child
	wants(401, "GET", "/api/v1/me", "", "") // it ended with the session that made its code
	cookie = own
	var list api.List[api.Session]
	if err := json.Unmarshal([]byte(wants(200, "GET", "/api/v1/sessions", "", "")), &list); err != nil || len(list.Items) != 1 || list.Items[0].ID != other.ID {
		t.Errorf("%+v, want %+v alone, %v", list.Items, other, err)
	}
	if err := json.Unmarshal([]byte(wants(200, "POST", "/api/v1/session:code", "", n.URL())), &code); err != nil {
		t.Error(err)
	}
	second := cookie
	wants(200, "POST", "/api/v1/session", `{"code":"`+code.Code+`"}`, "")
	wants(200, "GET", "/api/v1/me", "", "") // the code's session lasts also in the browser of the session that made it
	cookie = second
	wants(200, "POST", "/api/v1/session", signIn(), "") // a new session in place of that of the browser
	for _, was := range []*http.Cookie{first, second} {
		now := cookie
		cookie = was
		wants(401, "GET", "/api/v1/me", "", "")
		cookie = now
	}
	wants(200, "GET", "/api/v1/me", "", "")
	was := cookie
	wants(204, "DELETE", "/api/v1/session", "", n.URL())
	if cookie != nil {
		t.Errorf("the browser keeps %+v", cookie)
	}
	cookie = was
	wants(401, "GET", "/api/v1/me", "", "")
}
