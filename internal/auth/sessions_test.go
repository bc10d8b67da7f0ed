package auth_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// signedIn is a gate that accepts sessions, over a store with the test's clock.
type signedIn struct {
	*auth.Sessions
	t    *testing.T
	st   *memory.Store
	gate http.Handler
	own  string // the token of this start
}

func newSignedIn(t *testing.T) *signedIn {
	t.Helper()
	st := memory.New(memory.Options{Clock: func() dag.Micros { return dag.Micro(time.Now()) }})
	own, hash := auth.NewLocal()
	s := &signedIn{auth.NewSessions(st), t, st, nil, own}
	s.gate = auth.New(auth.Config{Store: st, Required: true, Local: hash, Sessions: s.Sessions, Route: func(r *http.Request) auth.Route {
		switch r.URL.Path {
		case "/metrics":
			return auth.Route{Verb: access.Metrics}
		case "/work":
			return auth.Route{Verb: access.WorkerCall}
		case "/code":
			return auth.Route{Verb: access.Self}
		}
		return auth.Route{Verb: access.RunRead, BodyMax: 100}
	}}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch is, _ := auth.Holder(r.Context()); {
		case r.URL.Path == "/code":
			code, err := s.Code(r.Context())
			if errors.Is(err, auth.ErrChild) {
				w.WriteHeader(http.StatusForbidden)
			} else if err != nil {
				t.Error(err)
			}
			_, _ = w.Write([]byte(code))
		case r.URL.Path == "/stream":
			<-r.Context().Done()
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = w.Write([]byte(is.Name))
		}
	}))
	return s
}

// call returns the status and the body of a call. header holds names and values in turn.
func (s *signedIn) call(method, path, cookie string, header ...string) (int, string) {
	s.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(map[bool]string{true: "{}"}[method == http.MethodPost]))
	if cookie != "" {
		r.Header.Set("Cookie", "skein="+cookie)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.gate.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func (s *signedIn) wants(status int, method, path, cookie string, header ...string) {
	s.t.Helper()
	if got, body := s.call(method, path, cookie, header...); got != status {
		s.t.Errorf("%s %s %v: %d, want %d: %.200s", method, path, header, got, status, body)
	}
}

// TestSessionsCount: a session has the rights of its token on routes for people. Changes are accepted only
// from the server's own page.
func TestSessionsCount(t *testing.T) { synctest.Test(t, sessionsCount) }

func sessionsCount(t *testing.T) {
	s := newSignedIn(t)
	token, row := add(t, s.st, store.TokenAPI, "ann", 0)
	worker, _ := add(t, s.st, store.TokenWorker, "w", 0)
	for _, other := range []string{worker, auth.NewSecret("api"), "x"} {
		if _, _, err := s.ByToken(t.Context(), other, auth.Place{}); !errors.Is(err, auth.ErrSignIn) {
			t.Errorf("%.12s: %v", other, err)
		}
	}
	cookie, is, err := s.ByToken(t.Context(), token, auth.Place{Remote: "192.0.2.1:9", Agent: "Fire\x1bfox"})
	if err != nil || is.Name != "ann" || is.Address != "192.0.2.1" || is.Agent != "Firefox" || is.Token != row.ID {
		t.Fatalf("%+v, %v", is, err)
	}
	if status, name := s.call("GET", "/runs", cookie); status != 200 || name != "ann" {
		t.Errorf("%d %s", status, name)
	}
	s.wants(401, "GET", "/metrics", cookie)
	s.wants(401, "GET", "/work", cookie)
	s.wants(401, "GET", "/runs", cookie+"x")
	s.wants(401, "GET", "/runs", "", "Cookie", "skein="+cookie+"; skein="+cookie)
	s.wants(401, "GET", "/runs", cookie, "X-Forwarded-Proto", "https") // over TLS the cookie has the name that only the host itself can set
	s.wants(401, "GET", "/runs", "", "Authorization", "Bearer "+cookie)
	json := []string{"Content-Type", "application/json"}
	s.wants(200, "POST", "/runs", cookie, json...)
	s.wants(200, "POST", "/runs", cookie, append(json, "Sec-Fetch-Site", "same-origin", "Origin", "http://example.com")...)
	s.wants(403, "POST", "/runs", cookie, append(json, "Sec-Fetch-Site", "cross-site")...)
	s.wants(403, "POST", "/runs", cookie, append(json, "Sec-Fetch-Site", "same-site")...)
	s.wants(403, "POST", "/runs", cookie, append(json, "Origin", "http://evil.example")...)
	s.wants(403, "DELETE", "/runs", cookie, "Origin", "null")
	s.wants(415, "POST", "/runs", cookie, "Content-Type", "text/plain")
	s.wants(415, "POST", "/runs", cookie)
	s.wants(200, "POST", "/runs", "", "Authorization", "Bearer "+token) // a page cannot show a token of another origin
	if err := s.st.RevokeToken(t.Context(), row.ID); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second) // see staleAfter
	s.wants(401, "GET", "/runs", cookie)
}

// TestSessionsEnd: a session ends after 8 h without use, after 24 h in any case, or by a call. Its streams
// end with it.
func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSignedIn(t)
		token, _ := add(t, s.st, store.TokenAPI, "ann", 0)
		for _, credential := range []string{token, s.own} {
			cookie, is, err := s.ByToken(t.Context(), credential, auth.Place{})
			if err != nil || is.Local != (credential == s.own) {
				t.Fatal(err, is)
			}
			for range 3 {
				time.Sleep(7 * time.Hour)
				s.wants(200, "GET", "/runs", cookie)
			}
			time.Sleep(3 * time.Hour)
			s.wants(401, "GET", "/runs", cookie)
			cookie, _, _ = s.ByToken(t.Context(), credential, auth.Place{})
			time.Sleep(8*time.Hour + time.Second)
			s.wants(401, "GET", "/runs", cookie)
			cookie, is, _ = s.ByToken(t.Context(), credential, auth.Place{})
			ended := make(chan int)
			go func() {
				status, _ := s.call("GET", "/stream", cookie)
				ended <- status
			}()
			synctest.Wait()
			if err := s.End(t.Context(), &is); err != nil {
				t.Error(err)
			}
			s.wants(401, "GET", "/runs", cookie)
			began := time.Now()
			if status := <-ended; status != 401 || time.Since(began) > 5*time.Second {
				t.Errorf("the stream ended with %d after %s", status, time.Since(began))
			}
			if err := s.End(t.Context(), &is); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("a second end: %v", err)
			}
		}
	})
}

// TestCodes: a code opens one session, within a minute, with the rights of its maker.
func TestCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSignedIn(t)
		token, _ := add(t, s.st, store.TokenAPI, "ann", 0)
		first := s.FirstCode()
		time.Sleep(30 * 24 * time.Hour)
		for name, code := range map[string]func() string{
			"ann": func() string { _, code := s.call("GET", "/code", "", "Authorization", "Bearer "+token); return code },
			"local": func() string {
				if first == "" {
					_, code := s.call("GET", "/code", "", "Authorization", "Bearer "+s.own)
					return code
				}
				defer func() { first = "" }()
				return first
			},
		} {
			shown := code()
			var opened atomic.Int32
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					cookie, is, err := s.ByCode(t.Context(), shown, auth.Place{})
					if err == nil && is.Name == name {
						opened.Add(1)
						s.wants(200, "GET", "/runs", cookie)
					}
				})
			}
			wg.Wait()
			if opened.Load() != 1 {
				t.Errorf("a code of %s opened %d sessions", name, opened.Load())
			}
			shown = code()
			time.Sleep(auth.CodeLife + time.Second)
			if _, _, err := s.ByCode(t.Context(), shown, auth.Place{}); !errors.Is(err, auth.ErrSignIn) {
				t.Errorf("a code of %s that is over: %v", name, err)
			}
		}
		for _, other := range []string{"", "x", token, auth.NewSecret("code")} {
			if _, _, err := s.ByCode(t.Context(), other, auth.Place{}); !errors.Is(err, auth.ErrSignIn) {
				t.Errorf("%.12q: %v", other, err)
			}
		}
	})
}

// TestCodesOfSessions checks a session that was opened with a code of another session. It ends with that
// other session, for whatever reason that one ends, and it can make no further code.
func TestCodesOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSignedIn(t)
		token, _ := add(t, s.st, store.TokenAPI, "ann", 0)
		for _, credential := range []string{token, s.own} {
			family := func() (parent, child string, is, opened auth.Session) {
				t.Helper()
				parent, is, err := s.ByToken(t.Context(), credential, auth.Place{})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				_, code := s.call("GET", "/code", parent)
				child, opened, err = s.ByCode(t.Context(), code, auth.Place{})
				if err != nil || opened.Name != is.Name || opened.Local != is.Local || opened.Expires != is.Expires {
					t.Fatalf("%+v of %+v, %v", opened, is, err)
				}
				s.wants(200, "GET", "/runs", child)
				return parent, child, is, opened
			}
			parent, child, is, opened := family()
			s.wants(403, "GET", "/code", child)
			if err := s.End(t.Context(), &opened); err != nil {
				t.Error(err)
			}
			s.wants(401, "GET", "/runs", child)
			s.wants(200, "GET", "/runs", parent)

			_, code := s.call("GET", "/code", parent)
			if err := s.End(t.Context(), &is); err != nil {
				t.Error(err)
			}
			if _, _, err := s.ByCode(t.Context(), code, auth.Place{}); !errors.Is(err, auth.ErrSignIn) {
				t.Errorf("a code of a session that has ended: %v", err)
			}
			_, child, is, _ = family()
			if err := s.End(t.Context(), &is); err != nil {
				t.Error(err)
			}
			s.wants(401, "GET", "/runs", child)

			_, child, _, _ = family()
			time.Sleep(6 * time.Hour)
			s.wants(200, "GET", "/runs", child)
			time.Sleep(2 * time.Hour) // the child was used, but its parent was not
			s.wants(401, "GET", "/runs", child)
			parent, child, _, _ = family()
			for range 22 {
				time.Sleep(time.Hour)
				s.wants(200, "GET", "/runs", parent)
				s.wants(200, "GET", "/runs", child)
			}
			time.Sleep(time.Hour + time.Second)
			s.wants(401, "GET", "/runs", child)
		}
	})
}

// TestSessionsOfPeople: a session of a person has the rights of its bindings, and none when the account is disabled.
func TestSessionsOfPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSignedIn(t)
		change := func(expect int64, c store.RightsChange) int64 {
			is, err := s.st.ChangeRights(t.Context(), expect, c)
			if err != nil {
				t.Fatal(err)
			}
			return is
		}
		eve := store.Principal{Kind: store.PrincipalUser, Name: "eve", State: store.PrincipalActive}
		eve.ID = change(1, store.RightsChange{Add: &eve, Bind: []store.Binding{{Role: "viewer", Namespace: "shop"}}})
		cookie, is, err := s.ByUser(t.Context(), &eve, auth.Place{})
		if err != nil || is.Name != "eve" {
			t.Fatal(is, err)
		}
		if status, name := s.call("GET", "/runs", cookie); status != 200 || name != "eve" {
			t.Errorf("%d %s", status, name)
		}
		gone := eve
		gone.State = store.PrincipalDisabled
		change(eve.ID, store.RightsChange{Set: &gone})
		time.Sleep(3 * time.Second)
		s.wants(401, "GET", "/runs", cookie)
	})
}

// TestEndOf: the end of a session at a provider ends the sessions that it opened, with their children, and
// those of the person that belong to no known session at a provider. The end of a person ends all of them.
func TestEndOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSignedIn(t)
		people := map[string]store.Principal{}
		for i, name := range []string{"eve", "dan"} {
			p := store.Principal{Kind: store.PrincipalUser, Name: name, State: store.PrincipalActive}
			id, err := s.st.ChangeRights(t.Context(), int64(i+1), store.RightsChange{Add: &p, Bind: []store.Binding{{Role: "viewer", Namespace: "shop"}}})
			if err != nil {
				t.Fatal(err)
			}
			p.ID = id
			people[name] = p
		}
		opened := map[string]auth.Session{}
		open := func(as, who, origin string) (cookie string) {
			p := people[who]
			cookie, is, err := s.ByUser(t.Context(), &p, auth.Place{Origin: origin})
			if err != nil {
				t.Fatal(err)
			}
			opened[as] = is
			return cookie
		}
		left := func() (names string) {
			all, err := s.st.SessionList(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i := range all {
				for name, is := range opened {
					if is.Session.ID == all[i].ID {
						names += name + " "
					}
				}
			}
			return names
		}
		open("a1", "eve", "a")
		open("a2", "eve", "a")
		open("b", "eve", "b")
		child, err := s.st.AddSession(t.Context(), store.Session{Hash: make([]byte, 32), Principal: people["eve"].ID, Parent: opened["b"].Session.ID, Expires: 1 << 60},
			store.SessionBounds{OfOne: 50, All: 50})
		if err != nil {
			t.Fatal(err)
		}
		opened["child"] = auth.Session{Session: child}
		open("plain", "eve", "")
		open("dan", "dan", "a")
		open("other", "dan", "")
		for _, step := range []struct {
			who, origin string
			ended       int
			left        string
		}{
			{"", "", 0, "a1 a2 b child plain dan other "},
			{"", "c", 0, "a1 a2 b child plain dan other "},
			{"dan", "b", 1, "a1 a2 b child plain dan "},
			{"eve", "a", 3, "b child dan "},
			{"", "a", 1, "b child "},
			{"", "b", 1, ""},
		} {
			n, err := s.EndOf(t.Context(), people[step.who].ID, step.origin)
			if is := left(); err != nil || n != step.ended || is != step.left {
				t.Errorf("%+v: %d ended, %q are left, %v", step, n, is, err)
			}
		}
		open("c", "eve", "c")
		open("d", "eve", "")
		open("e", "dan", "c")
		if n, err := s.EndOf(t.Context(), people["eve"].ID, ""); err != nil || n != 2 || left() != "e " {
			t.Errorf("%d ended, %q are left, %v", n, left(), err)
		}
	})
}
