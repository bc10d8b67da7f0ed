package app

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/doctor"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// idp is a real OpenID provider behind a proxy that can make its answers wrong.
type idp struct {
	issuer string
	key    *rsa.PrivateKey
	front  *httptest.Server
	inner  string // address of the provider itself, without the proxy

	mu     sync.Mutex // protects following fields
	forge  func(head, claims map[string]any) string
	person func(map[string]any) // edits the claims of the provider about a person
	away   bool
}

const idpSecret = "a secret that only the test and the provider know"

// newIDP starts only the proxy of a provider. startIDPs starts the providers themselves.
func newIDP(t *testing.T) *idp {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &idp{key: key}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", p.inner, r.In.Host
			r.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: p.modify,
	}
	p.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		away := p.away
		p.mu.Unlock()
		if away {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(p.front.Close)
	p.issuer = p.front.URL
	return p
}

func (p *idp) set(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
}

// modify changes an answer as the test has set.
func (p *idp) modify(r *http.Response) error {
	p.mu.Lock()
	forge, person := p.forge, p.person
	p.mu.Unlock()
	if r.StatusCode != http.StatusOK || forge == nil && person == nil {
		return nil
	}
	body := map[string]any{}
	switch {
	case r.Request.URL.Path == "/token" && forge != nil:
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return err
		}
		parts := strings.Split(body["id_token"].(string), ".")
		body["id_token"] = forge(part(parts[0]), part(parts[1]))
	case r.Request.URL.Path == "/me" && person != nil:
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return err
		}
		person(body)
	default:
		return nil
	}
	text, err := json.Marshal(body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	r.Header.Set("Content-Length", fmt.Sprint(len(text)))
	return err
}

// part reads a part of a JWT.
func part(text string) map[string]any {
	all := map[string]any{}
	if b, err := base64.RawURLEncoding.DecodeString(text); err == nil {
		_ = json.Unmarshal(b, &all)
	}
	return all
}

// signed returns a JWT that a key has signed. If the key is nil, the JWT has no signature.
func signed(head, claims map[string]any, key *rsa.PrivateKey) string {
	h, _ := json.Marshal(head)
	c, _ := json.Marshal(claims)
	text := base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString(c)
	if key == nil {
		return text + "."
	}
	sum := sha256.Sum256([]byte(text))
	sign, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(sign)
}

// jwk is a private key as the provider reads it.
func jwk(k *rsa.PrivateKey) map[string]any {
	b := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }
	return map[string]any{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "k1", "n": b(k.N), "e": b(big.NewInt(int64(k.E))), "d": b(k.D),
		"p": b(k.Primes[0]), "q": b(k.Primes[1]), "dp": b(k.Precomputed.Dp), "dq": b(k.Precomputed.Dq), "qi": b(k.Precomputed.Qinv)}
}

// startIDPs starts real providers in a process that ends with the test. names are the clients' names in the
// settings of the server at base.
func startIDPs(t *testing.T, base string, names []string, all ...*idp) {
	t.Helper()
	dir, err := filepath.Abs("testdata/provider")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	folder := filepath.Join(cache, "skein", "oidc-provider-"+hex.EncodeToString(sum[:])[:12])
	if _, err := os.Stat(filepath.Join(folder, "node_modules", ".complete")); err != nil {
		const text = "the OpenID provider of the tests is not installed; make tools installs it"
		if os.Getenv("CI") != "" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "provider.mjs"), folder)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	config := []map[string]any{}
	for i, p := range all {
		config = append(config, map[string]any{"issuer": p.issuer, "jwks": map[string]any{"keys": []any{jwk(p.key)}}, "clients": []any{map[string]any{
			"client_id": "skein", "client_secret": idpSecret, "redirect_uris": []string{base + "/auth/" + names[i] + "/callback"},
			"backchannel_logout_uri": base + "/auth/" + names[i] + "/logout", "backchannel_logout_session_required": true, "post_logout_redirect_uris": []string{base + "/"}}}})
	}
	if err := json.NewEncoder(in).Encode(config); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range all {
		var is struct {
			Issuer string
			Port   int
		}
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &is) != nil {
			t.Fatal("a provider does not start", lines.Err())
		}
		i := slices.IndexFunc(all, func(p *idp) bool { return p.issuer == is.Issuer })
		all[i].inner = net.JoinHostPort("127.0.0.1", fmt.Sprint(is.Port))
	}
}

// account sets the account of the next login, and the claims of the provider about it.
func (p *idp) account(t *testing.T, id string, claims map[string]any) {
	t.Helper()
	p.accountWith(t, id, claims, nil)
}

// accountWith also sets the level (acr) and the methods (amr) of the next login.
func (p *idp) accountWith(t *testing.T, id string, claims, strength map[string]any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"id": id, "claims": claims, "strength": strength})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post("http://"+p.inner+"/test/account", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// browser follows redirects and keeps cookies. If an address contains hold, the browser stops before it
// requests that address.
type browser struct {
	http.Client
	held string
}

func newBrowser(t *testing.T, hold string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{Client: http.Client{Jar: jar, Transport: &http.Transport{}}}
	b.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if hold != "" && strings.Contains(r.URL.String(), hold) {
			b.held = r.URL.String()
			return http.ErrUseLastResponse
		}
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if len(via) > 20 {
			return http.ErrUseLastResponse
		}
		return nil
	}
	t.Cleanup(b.CloseIdleConnections)
	return b
}

type answer struct {
	status int
	code   string
	text   string
	at     *url.URL
	header http.Header
}

// get requests an address. It requests /login like the server's own page (same-origin), and any other address
// like a link on another site (cross-site).
func (b *browser) get(t *testing.T, address string) answer {
	t.Helper()
	if strings.Contains(address, "/login") {
		return b.from(t, "same-origin", address)
	}
	return b.from(t, "cross-site", address)
}

// from requests an address, as from a page of a site.
func (b *browser) from(t *testing.T, site, address string) answer {
	t.Helper()
	for {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Accept": "text/html", "Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"} {
			r.Header.Set(name, value)
		}
		resp, err := b.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusTooManyRequests { // the number of refusals a second of an address is bounded
			time.Sleep(50 * time.Millisecond)
			continue
		}
		code := ""
		if m := codeShown.FindSubmatch(text); m != nil {
			code = string(m[1])
		}
		return answer{resp.StatusCode, code, string(text), resp.Request.URL, resp.Header}
	}
}

// codeShown finds the code of a page that says why a person is not signed in.
var codeShown = regexp.MustCompile(`<code>([a-z_]+)</code>`)

// call calls the API as the page does.
func (b *browser) call(t *testing.T, address string, into any) int {
	t.Helper()
	resp, err := b.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// oidcWorld is a node with two providers.
type oidcWorld struct {
	t         *testing.T
	n         *Node
	k         *skein.Client
	corp, two *idp
	strict    *idp // users of this provider must use two factors
}

func newOIDCWorld(t *testing.T) *oidcWorld {
	w := &oidcWorld{t: t, corp: newIDP(t), two: newIDP(t), strict: newIDP(t)}
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(idpSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := testConfig(t, map[string]string{"loopback": "token", "auth": fmt.Sprintf(`{"oidc": [
		{"name": "corp", "issuer": %q, "client_id": "skein", "client_secret_file": %q, "scopes": ["profile", "email", "groups"], "require_group": "staff",
		 "roles": {"staff": ["viewer"], "ops": ["operator@shop", "editor@web"], "odd": ["nothing"]}},
		{"name": "two", "issuer": %q, "client_id": "skein", "client_secret_file": %[2]q},
		{"name": "strict", "issuer": %[4]q, "client_id": "skein", "client_secret_file": %[2]q, "scopes": ["profile"],
		 "require_acr": ["urn:test:two-factors"], "require_amr": ["hwk", "mfa"], "max_age": "8h"}]}`, w.corp.issuer, file, w.two.issuer, w.strict.issuer)})
	w.n, w.k, _ = startNode(t, config)
	startIDPs(t, w.n.URL(), []string{"corp", "two", "strict"}, w.corp, w.two, w.strict)
	return w
}

// roles returns the roles of a user, in the form ROLE@NAMESPACE.
func (w *oidcWorld) roles(name string) []string {
	w.t.Helper()
	u, err := skein.NewPeople(w.k).User(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	all := []string{}
	for _, r := range u.Roles {
		all = append(all, r.Role+"@"+r.Namespace)
	}
	return all
}

// TestOIDC signs people in by a real provider. First the provider, or a stranger, gives wrong answers. Then
// people come for the first time and again, with other groups, with a name that is taken, while the provider
// is away, and with a user that is disabled.
func TestOIDC(t *testing.T) {
	w := newOIDCWorld(t)
	t.Run("faults", w.faults)
	t.Run("people", w.people)
	t.Run("strength", w.strength)
	t.Run("logout", func(t *testing.T) { (&signOuts{oidcWorld: w, t: t}).logout() })
	t.Run("the end of a session at the provider", func(t *testing.T) { (&signOuts{oidcWorld: w, t: t}).logoutOfSession() })
}

func (w *oidcWorld) people(t *testing.T) {
	base, people := w.n.URL(), skein.NewPeople(w.k)
	in := func(b *browser, wants string) answer {
		t.Helper()
		is := b.get(t, base+"/auth/corp/login?return="+url.QueryEscape("/runs?state=failed"))
		if is.code != wants {
			t.Fatalf("%d %s at %v: %.500s; want %q", is.status, is.code, is.at, is.text, wants)
		}
		return is
	}
	me := func(b *browser) (is api.Me) {
		t.Helper()
		if status := b.call(t, base+"/api/v1/me", &is); status != 200 {
			t.Fatalf("%d", status)
		}
		return is
	}
	var list api.List[api.IdentityProvider]
	if status := newBrowser(t, "").call(t, base+"/api/v1/identity-providers", &list); status != 200 || len(list.Items) != 3 ||
		list.Items[0] != (api.IdentityProvider{Name: "corp", Login: "/auth/corp/login"}) {
		t.Errorf("%d %+v", status, list)
	}
	w.corp.account(t, "id-1", map[string]any{"preferred_username": "Ann", "groups": []string{"staff", "ops", "odd"}})
	first := newBrowser(t, "")
	if is := in(first, ""); is.at.String() != base+"/runs?state=failed" {
		t.Errorf("it ends at %v", is.at)
	}
	if is := me(first); is.Name != "ann" {
		t.Errorf("%+v", is)
	}
	page, err := skein.NewAudit(w.k).List(t.Context(), skein.AuditQuery{Principal: "ann"})
	if err != nil || len(page.Items) != 2 {
		t.Fatalf("rows of a first sign-in: %+v, %v", page.Items, err)
	}
	for i, r := range page.Items { // the newest first: the session, then the user
		if r.Action != "sign-in-by-provider" || r.Object != "/auth/corp/callback" || r.Kind != "user" || r.Address != "127.0.0.1" ||
			(i == 1) != strings.HasPrefix(r.Detail, "oidc:corp, new user, role ") || (i == 1) != strings.Contains(r.Detail, ", role operator in shop") {
			t.Errorf("row %d: %+v", i, r)
		}
	}
	if got, want := w.roles("ann"), []string{"editor@web", "operator@shop", "viewer@*"}; !slices.Equal(got, want) {
		t.Errorf("roles %v, want %v", got, want)
	}
	if u, err := people.User(t.Context(), "ann"); err != nil || u.Source != "oidc:corp" || u.CreatedBy != "oidc:corp" {
		t.Errorf("%+v, %v", u, err)
	}
	if err := people.SetPassword(t.Context(), "ann", api.PasswordRequest{Password: "correct horse battery"}); err == nil {
		t.Error("a person of a provider gets a password")
	}
	text := `{"old": "x", "password": "correct horse battery"}`
	if resp, err := first.Post(base+"/api/v1/users/ann:password", "application/json", strings.NewReader(text)); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusConflict {
		t.Errorf("the person's own password: %+v, %v", resp, err)
	}
	// A page of another site cannot change who is signed in, and no answer leads to another port.
	if is := first.from(t, "cross-site", base+"/auth/corp/login?return=/runs"); is.at.String() != base+"/" || me(first).Name != "ann" {
		t.Errorf("a link of another site leads to %v", is.at)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/auth/corp/login", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "127.0.0.1:1"
	if resp, err := newBrowser(t, w.corp.issuer).Do(r); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("under another port: %+v, %v", resp, err)
	}
	// The groups have changed, and a person has given the user a role.
	if _, err := people.Grant(t.Context(), api.BindingRequest{User: "ann", RoleRef: api.RoleRef{Role: "auditor", Namespace: "*"}}); err != nil {
		t.Fatal(err)
	}
	w.corp.account(t, "id-1", map[string]any{"preferred_username": "renamed", "groups": []string{"staff"}})
	in(newBrowser(t, ""), "")
	if got, want := w.roles("ann"), []string{"auditor@*", "viewer@*"}; !slices.Equal(got, want) {
		t.Errorf("roles %v, want %v", got, want)
	}
	w.corp.account(t, "id-1", map[string]any{"groups": []string{"ops"}})
	in(newBrowser(t, ""), "sign_in_outside_group")
	// Another person has the same name, and then the names of other users.
	w.corp.account(t, "id-2", map[string]any{"preferred_username": "ann", "groups": "staff"})
	second := newBrowser(t, "")
	in(second, "")
	if is := me(second); is.Name != "ann@corp" {
		t.Errorf("%+v", is)
	}
	w.corp.account(t, "id-3", map[string]any{"preferred_username": "ann", "groups": []string{"staff"}})
	in(newBrowser(t, ""), "sign_in_no_name")
	w.corp.account(t, "id-3", map[string]any{"preferred_username": "a b", "email": "x@example.com", "email_verified": false, "groups": []string{"staff"}})
	in(newBrowser(t, ""), "sign_in_no_name")
	w.corp.account(t, "id-3", map[string]any{"email": "x@example.com", "groups": []string{"staff"}}) // no claim says that it is verified
	in(newBrowser(t, ""), "sign_in_no_name")
	// The user is disabled: the session ends, and no other one begins.
	if _, err := people.DisableUser(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	w.corp.account(t, "id-1", map[string]any{"groups": []string{"staff"}})
	in(newBrowser(t, ""), "sign_in_disabled")
	// The person cancels.
	w.corp.account(t, "", nil)
	in(newBrowser(t, ""), "sign_in_denied")
	w.doctor(t)
	// The provider is away: the browser gets one clear page, and everything else continues.
	w.two.set(func() { w.two.away = true })
	away := newBrowser(t, "").get(t, base+"/auth/two/login")
	if away.status != http.StatusServiceUnavailable || away.code != "sign_in_provider_away" {
		t.Errorf("%+v", away)
	}
	me(second)
	if got := second.get(t, base+"/auth/none/login"); got.status != http.StatusNotFound {
		t.Errorf("%+v", got)
	}
}

// strength checks that the provider must prove the level, a method and the time of the sign-in, as the
// settings require.
func (w *oidcWorld) strength(t *testing.T) {
	login := w.n.URL() + "/auth/strict/login"
	both := map[string]any{"acr": "urn:test:two-factors", "amr": []string{"pwd", "mfa"}}
	refused := func(b *browser, missing string) {
		t.Helper()
		is := b.get(t, login)
		if is.status != http.StatusForbidden || is.code != "sign_in_too_weak" || !strings.Contains(is.text, missing) {
			t.Errorf("%d %s: %.700s; want %q", is.status, is.code, is.text, missing)
		}
	}
	held := newBrowser(t, w.strict.issuer)
	held.get(t, login)
	asked, err := url.Parse(held.held)
	if err != nil || asked.Query().Get("acr_values") != "urn:test:two-factors" || asked.Query().Get("max_age") != "28800" {
		t.Errorf("the provider is asked for %s, %v", held.held, err)
	}
	for missing, strength := range map[string]map[string]any{
		"the level (acr)":   {"acr": "urn:test:password", "amr": []string{"mfa"}},
		"the methods (amr)": {"acr": "urn:test:two-factors", "amr": []string{"pwd"}},
	} {
		w.strict.accountWith(t, "id-s", map[string]any{"preferred_username": "sue"}, strength)
		refused(newBrowser(t, ""), missing)
	}
	w.strict.accountWith(t, "id-s", map[string]any{"preferred_username": "sue"}, both)
	b := newBrowser(t, "")
	if is := b.get(t, login); is.code != "" || is.status != http.StatusOK {
		t.Errorf("%d %s %.500s", is.status, is.code, is.text)
	}
	for missing, at := range map[string]any{
		"is 9h0m": float64(time.Now().Add(-9 * time.Hour).Unix()), "in the future": float64(time.Now().Add(time.Hour).Unix()), "(auth_time) is missing": nil,
	} {
		w.strict.set(func() {
			w.strict.forge = func(head, claims map[string]any) string {
				if claims["auth_time"] = at; at == nil {
					delete(claims, "auth_time")
				}
				return signed(head, claims, w.strict.key)
			}
		})
		refused(newBrowser(t, ""), missing)
	}
	w.strict.set(func() { w.strict.forge = nil })
}

// doctor runs the check of the settings for both providers: one is right, and the other one does not know the
// redirect address.
func (w *oidcWorld) doctor(t *testing.T) {
	if secret := w.n.cfg.Auth.OIDC[0].ClientSecretFile; !slices.Contains(w.n.cfg.Protected(), secret) {
		t.Errorf("an isolated task can read %s", secret)
	}
	is := func(public, provider, state, found string) {
		t.Helper()
		config := *w.n.cfg
		config.PublicURL = public
		for _, c := range doctor.Run(t.Context(), &config) {
			if c.Name == "sign-in by "+provider && (c.State != state || !strings.Contains(c.Found, found)) {
				t.Errorf("%+v, want %s with %q", c, state, found)
			}
		}
	}
	is(w.n.URL(), "corp", doctor.Good, "/auth/corp/callback")
	is("https://other.example", "corp", doctor.Warning, "answers 400 Bad Request: the provider may not know the client skein or the redirect address https://other.example/auth/corp/callback; register both")
	w.two.set(func() { w.two.away = true })
	is(w.n.URL(), "two", doctor.Warning, "its description")
}

// faults checks that each wrong answer is refused, and that no person is signed in by it.
func (w *oidcWorld) faults(t *testing.T) {
	base := w.n.URL()
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	w.corp.account(t, "id-7", map[string]any{"preferred_username": "eve", "groups": []string{"staff"}})
	with := func(name string, value any) func(head, claims map[string]any) string {
		return func(head, claims map[string]any) string {
			claims[name] = value
			return signed(head, claims, w.corp.key)
		}
	}
	notSigned := func(b *browser) {
		t.Helper()
		if slices.ContainsFunc(b.cookies(t, base), func(c *http.Cookie) bool { return c.Name == "skein" }) {
			t.Error("a refused person is signed in")
		}
	}
	for _, c := range []struct {
		name  string
		forge func(head, claims map[string]any) string
	}{
		{"alg none", func(head, claims map[string]any) string {
			head["alg"] = "none"
			return signed(head, claims, nil)
		}},
		{"HS256 by the client's secret", func(head, claims map[string]any) string {
			return hs256(map[string]any{"alg": "HS256"}, claims)
		}},
		{"a foreign key", func(head, claims map[string]any) string { return signed(head, claims, other) }},
		{"another audience", with("aud", "other")},
		{"made for another client", with("azp", "other")},
		{"several audiences", with("aud", []string{"skein", "other"})},
		{"another issuer", with("iss", w.two.issuer)},
		{"another nonce", with("nonce", "other")},
		{"expired", with("exp", 1_700_000_000)},
		{"no subject", with("sub", "")},
		{"another person at the provider", with("sub", "id-9")},
		{"no ID token", func(_, _ map[string]any) string { return "" }},
	} {
		w.corp.set(func() { w.corp.forge = c.forge })
		b := newBrowser(t, "")
		if is := b.get(t, base+"/auth/corp/login"); is.code != "sign_in_bad_token" || is.status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s %.300s", c.name, is.status, is.code, is.text)
		}
		notSigned(b)
	}
	w.corp.set(func() { w.corp.forge = nil })
	w.corp.set(func() { w.corp.person = func(is map[string]any) { is["groups"] = map[string]any{"staff": true} } })
	if is := newBrowser(t, "").get(t, base+"/auth/corp/login"); is.code != "sign_in_bad_token" {
		t.Errorf("groups that are no list: %+v", is)
	}
	w.corp.set(func() { w.corp.person = nil })

	// stop signs in up to the answer of the provider, but does not take the answer to the server.
	stop := func() *browser {
		t.Helper()
		b := newBrowser(t, base+"/auth/corp/callback")
		if b.get(t, base+"/auth/corp/login"); b.held == "" {
			t.Fatal("the provider sends nobody back")
		}
		return b
	}
	edited := func(address string, do func(url.Values)) string {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		do(q)
		u.RawQuery = q.Encode()
		return u.String()
	}
	one, two := stop(), stop()
	for _, c := range []struct {
		name, at, code string
	}{
		{"the answer of another browser", two.held, "sign_in_stale"},
		{"no state", edited(one.held, func(q url.Values) { q.Del("state") }), "sign_in_stale"},
		{"two states", edited(one.held, func(q url.Values) { q.Add("state", "x") }), "sign_in_stale"},
		{"another provider's address", strings.Replace(one.held, "/corp/", "/two/", 1), "sign_in_stale"},
		{"another issuer", edited(one.held, func(q url.Values) { q.Set("iss", w.two.issuer) }), "sign_in_other_issuer"},
		{"no issuer", edited(one.held, func(q url.Values) { q.Del("iss") }), "sign_in_other_issuer"},
		{"another code", edited(one.held, func(q url.Values) { q.Set("code", "x") }), "sign_in_denied"},
		{"an error with markup", edited(one.held, func(q url.Values) { q.Set("error", "<b>") }), "sign_in_denied"},
	} {
		b := newBrowser(t, "")
		copyCookies(t, b, one, base)
		if is := b.get(t, c.at); is.code != c.code || strings.Contains(is.text, "<b>") {
			t.Errorf("%s: %d %s %.300s, want %s", c.name, is.status, is.code, is.text, c.code)
		}
		notSigned(b)
	}
	thief := newBrowser(t, "")
	if is := thief.get(t, two.held); is.code != "sign_in_stale" {
		t.Errorf("without a cookie: %+v", is)
	}
	copyCookies(t, thief, two, base)
	if is := newBrowser(t, ""); true { // the browser of the honest person
		copyCookies(t, is, two, base)
		if got := is.get(t, two.held); got.code != "" || got.at.String() != base+"/" {
			t.Errorf("%+v", got)
		}
	}
	if is := thief.get(t, two.held); is.code != "sign_in_denied" {
		t.Errorf("a code that comes again: %+v", is)
	}
	notSigned(thief)

	// The answer for a browser is a page without scripts, and no address leads elsewhere.
	if is := thief.get(t, base+"/auth/corp/callback"); is.status != 400 || !strings.Contains(is.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%+v", is)
	}
	for _, back := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, "/\t/evil.example", "/api/v1/me", "/auth/corp/login", "javascript:alert(1)",
		"/a/../../x", "evil", "", "/x y", "/%5Cevil.example", "/%09/evil.example", "/%2F%2Fevil.example/..", "/" + strings.Repeat("x", 2000)} {
		if is := newBrowser(t, "").get(t, base+"/auth/corp/login?return="+url.QueryEscape(back)); is.at.String() != base+"/" {
			t.Errorf("return=%q leads to %v: %d %.200s", back, is.at, is.status, is.text)
		}
	}
}

func hs256(head, claims map[string]any) string {
	h, _ := json.Marshal(head)
	c, _ := json.Marshal(claims)
	text := base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString(c)
	m := hmac.New(sha256.New, []byte(idpSecret))
	m.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// copyCookies gives a browser the cookies of another one for the server.
func copyCookies(t *testing.T, to, from *browser, base string) {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	to.Jar.SetCookies(u, from.cookies(t, base))
}

func (b *browser) cookies(t *testing.T, base string) []*http.Cookie {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return b.Jar.Cookies(u)
}
