package app

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	skein "skein.dev/skein/sdk"
)

// signOuts sends logout tokens of a provider to the node.
type signOuts struct {
	*oidcWorld
	t     *testing.T
	count int // number of tokens
}

// in signs a person in by the provider, in a new browser.
func (w *signOuts) in(id, name string) *browser {
	w.t.Helper()
	w.corp.account(w.t, id, map[string]any{"preferred_username": name, "groups": []string{"staff"}})
	b := newBrowser(w.t, "")
	if is := b.get(w.t, w.n.URL()+"/auth/corp/login"); is.code != "" || is.status >= 400 {
		w.t.Fatalf("%d %s %.300s", is.status, is.code, is.text)
	}
	return b
}

func (w *signOuts) signedIn(b *browser) bool {
	w.t.Helper()
	for {
		var me map[string]any
		if status := b.call(w.t, w.n.URL()+"/api/v1/me", &me); status != http.StatusTooManyRequests { // as for post below
			return status == 200
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// gone waits until a browser is not signed in any more.
func (w *signOuts) gone(b *browser) {
	w.t.Helper()
	for end := time.Now().Add(patience); w.signedIn(b); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatal("the session does not end")
		}
	}
}

// claims returns a logout token of the person out-1, as edit has changed it.
func (w *signOuts) claims(edit func(head, claims map[string]any)) string {
	w.count++
	head := map[string]any{"alg": "RS256", "kid": "k1", "typ": "logout+jwt"}
	c := map[string]any{"iss": w.corp.issuer, "aud": "skein", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(), "jti": fmt.Sprint(w.t.Name(), w.count),
		"sub": "out-1", "events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}}
	key := w.corp.key
	if edit != nil {
		edit(head, c)
	}
	if head["alg"] == "none" {
		key = nil
	}
	if head["kid"] == "of two" {
		key, head["kid"] = w.two.key, "k1"
	}
	return signed(head, c, key)
}

func (w *signOuts) post(at, kind, body string) int {
	w.t.Helper()
	for {
		resp, err := http.Post(w.n.URL()+at, kind, strings.NewReader(body))
		if err != nil {
			w.t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusTooManyRequests { // an address has so many refusals a second
			return resp.StatusCode
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (w *signOuts) send(token string) int {
	w.t.Helper()
	return w.post(logoutAt, formType, url.Values{"logout_token": {token}}.Encode())
}

const formType, logoutAt = "application/x-www-form-urlencoded", "/auth/corp/logout"

// logout: if a provider signs a person out, all sessions of this person end here, and no others. An invalid
// token ends no session, and a valid token is accepted only once.
func (w *signOuts) logout() {
	t := w.t
	one, two, other := w.in("out-1", "carol"), w.in("out-1", "carol"), w.in("out-2", "dan")
	for name, edit := range map[string]func(head, claims map[string]any){
		"no signature":     func(h, _ map[string]any) { h["alg"] = "none" },
		"another key":      func(h, _ map[string]any) { h["kid"] = "of two" },
		"another issuer":   func(_, c map[string]any) { c["iss"] = w.two.issuer },
		"another audience": func(_, c map[string]any) { c["aud"] = "other" },
		"expired":          func(_, c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() },
		"no end":           func(_, c map[string]any) { delete(c, "exp") },
		"old":              func(_, c map[string]any) { c["iat"] = time.Now().Add(-time.Hour).Unix() },
		"of the future":    func(_, c map[string]any) { c["iat"] = time.Now().Add(time.Hour).Unix() },
		"no time":          func(_, c map[string]any) { delete(c, "iat") },
		"no jti":           func(_, c map[string]any) { delete(c, "jti") },
		"no sub":           func(_, c map[string]any) { delete(c, "sub") },
		"an ID token":      func(_, c map[string]any) { delete(c, "events") },
		"another event":    func(_, c map[string]any) { c["events"] = map[string]any{"http://x.example/": map[string]any{}} },
		"an event of a text": func(_, c map[string]any) {
			c["events"] = map[string]any{"http://schemas.openid.net/event/backchannel-logout": "yes"}
		},
		"a nonce":         func(_, c map[string]any) { c["nonce"] = "n" },
		"an access token": func(h, _ map[string]any) { h["typ"] = "at+jwt" },
	} {
		if got := w.send(w.claims(edit)); got != 400 {
			t.Errorf("%s: %d", name, got)
		}
	}
	good := w.claims(nil)
	for name, got := range map[string]int{
		"no form":         w.post(logoutAt, "application/json", `{"logout_token":"`+good+`"}`) - 15,
		"no token":        w.post(logoutAt, formType, "x=y"),
		"two tokens":      w.post(logoutAt, formType, "logout_token="+good+"&logout_token="+good),
		"in the query":    w.post(logoutAt+"?logout_token="+good, formType, ""),
		"rubbish":         w.send("rubbish"),
		"large":           w.post(logoutAt, formType, "logout_token="+strings.Repeat("x", 1<<20)) - 13,
		"of the other":    w.post("/auth/two/logout", formType, url.Values{"logout_token": {good}}.Encode()) - 103, // that provider is away
		"of no provider":  w.post("/auth/none/logout", formType, url.Values{"logout_token": {good}}.Encode()) - 4,
		"without a login": 400,
	} {
		if got != 400 {
			t.Errorf("%s: %d", name, got)
		}
	}
	if !w.signedIn(one) || !w.signedIn(two) || !w.signedIn(other) {
		t.Fatal("a token that does not count has ended a session")
	}
	if got := w.send(w.claims(func(_, c map[string]any) { c["sub"] = "nobody" })); got != 200 {
		t.Errorf("a person who never came: %d", got)
	}
	if got := w.send(good); got != 200 {
		t.Fatalf("%d", got)
	}
	w.gone(one)
	w.gone(two)
	three := w.in("out-1", "carol")
	if got, is, others := w.send(good), w.signedIn(three), w.signedIn(other); got != 400 || !is || !others {
		t.Errorf("the same token once more: %d, signed in %v, another person %v", got, is, others)
	}
	page, err := skein.NewAudit(w.k).List(t.Context(), skein.AuditQuery{})
	rows := 0
	for _, r := range page.Items {
		if r.Action == "sign-out-by-provider" && r.Object == logoutAt && r.Outcome == "done" {
			rows++
		}
	}
	if err != nil || rows != 2 {
		t.Errorf("%d rows of two sessions: %+v, %v", rows, page.Items, err)
	}
}

// logoutOfSession: if a person signs out at the provider in one browser, only the session of that browser ends.
// The logout token names the session, and need not name the person.
func (w *signOuts) logoutOfSession() {
	t := w.t
	base := w.n.URL()
	three, four, other := w.in("out-1", "carol"), w.in("out-1", "carol"), w.in("out-2", "dan")
	resp, err := three.Get(w.corp.issuer + "/session/end?client_id=skein&post_logout_redirect_uri=" + url.QueryEscape(base+"/"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	secret := regexp.MustCompile(`name="xsrf" value="([^"]+)"`).FindSubmatch(text)
	if err != nil || secret == nil {
		t.Fatalf("%d %s, %v", resp.StatusCode, text, err)
	}
	resp, err = three.PostForm(w.corp.issuer+"/session/end/confirm", url.Values{"xsrf": {string(secret[1])}, "logout": {"yes"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	w.gone(three)
	if !w.signedIn(four) || !w.signedIn(other) {
		t.Error("another session than that of the browser has ended")
	}
	var sid any
	w.corp.set(func() {
		w.corp.forge = func(head, claims map[string]any) string {
			sid = claims["sid"]
			return signed(head, claims, w.corp.key)
		}
	})
	five := w.in("out-1", "carol")
	w.corp.set(func() { w.corp.forge = nil })
	of := func(session any, person string) func(_, c map[string]any) {
		return func(_, c map[string]any) {
			if c["sid"], c["sub"] = session, person; person == "" {
				delete(c, "sub")
			}
		}
	}
	for name, edit := range map[string]func(_, c map[string]any){"of another person": of(sid, "out-2"), "of nobody": of(sid, "nobody"),
		"that is not known": of("s", ""), "that is not known, of the person": of("s", "out-1")} {
		if got := w.send(w.claims(edit)); got != 200 {
			t.Errorf("a session %s: %d", name, got)
		}
	}
	if got := w.send(w.claims(of(7, ""))); got != 400 {
		t.Errorf("a session that is no text: %d", got)
	}
	if !w.signedIn(four) || !w.signedIn(five) || !w.signedIn(other) {
		t.Error("the end of another session has ended one here")
	}
	if got := w.send(w.claims(of(sid, ""))); got != 200 || sid == nil {
		t.Errorf("the session %v: %d", sid, got)
	}
	w.gone(five)
	if !w.signedIn(four) || !w.signedIn(other) {
		t.Error("another session than the named one has ended")
	}
}
