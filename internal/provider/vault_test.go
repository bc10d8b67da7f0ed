package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/sealed"
)

// vaultDouble answers as the API documentation of Vault and OpenBao describes KV version 2 and the sign-in
// methods. It is no Vault: see TestRealVault.
type vaultDouble struct {
	*httptest.Server
	mu     sync.Mutex // protects following fields
	data   map[string]map[string]any
	tokens map[string]bool
	logins []string // bodies
	reads  int
	lease  int64
	denied map[string]bool                                   // paths that the policy of every token forbids
	fail   func(w http.ResponseWriter, r *http.Request) bool // nil means no failure
}

func newVaultDouble(t *testing.T) *vaultDouble {
	v := &vaultDouble{data: map[string]map[string]any{}, tokens: map[string]bool{"root-token": true}, lease: 3600}
	v.Server = httptest.NewServer(http.HandlerFunc(v.serve))
	t.Cleanup(v.Close)
	return v
}

func (v *vaultDouble) serve(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	say := func(code int, is any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(is)
	}
	refuse := func(code int, why ...string) { say(code, map[string][]string{"errors": append([]string{}, why...)}) }
	if v.fail != nil && v.fail(w, r) {
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	if strings.HasSuffix(path, "/login") && r.Method == http.MethodPost {
		var in map[string]string
		if json.NewDecoder(r.Body).Decode(&in) != nil || in["secret_id"] == "wrong-secret-id" || r.Header.Get("X-Vault-Token") != "" {
			refuse(http.StatusBadRequest, "invalid role or secret ID")
			return
		}
		v.logins = append(v.logins, path+" "+in["role"]+in["role_id"]+" "+in["jwt"]+in["secret_id"])
		token := fmt.Sprint("token-", len(v.logins))
		v.tokens[token] = true
		say(http.StatusOK, map[string]any{"auth": map[string]any{"client_token": token, "lease_duration": v.lease, "renewable": true}})
		return
	}
	if !v.tokens[r.Header.Get("X-Vault-Token")] || v.denied[path] {
		refuse(http.StatusForbidden, "permission denied")
		return
	}
	if path == "auth/token/lookup-self" {
		say(http.StatusOK, map[string]any{"data": map[string]any{"ttl": v.lease}})
		return
	}
	v.reads++
	is, ok := v.data[r.Header.Get("X-Vault-Namespace")+"|"+path]
	if !ok {
		refuse(http.StatusNotFound)
		return
	}
	if is == nil { // deleted
		say(http.StatusNotFound, map[string]any{"data": map[string]any{"data": nil, "metadata": map[string]any{"deletion_time": "2026-11-26T00:00:00Z"}}})
		return
	}
	say(http.StatusOK, map[string]any{"data": map[string]any{"data": is, "metadata": map[string]any{"version": 3}}})
}

func (v *vaultDouble) chain(t *testing.T, rest string) *Chain {
	t.Helper()
	return chain(t, fmt.Sprintf(`[{"vault":{"address":%q,%s},"namespaces":["shop"],"cache":"0s"}]`, v.URL, rest))
}

func tokenFile(t *testing.T, text string) string {
	t.Helper()
	path := t.TempDir() + "/token"
	write(t, path, text, 0o600)
	return path
}

func TestVaultReads(t *testing.T) {
	v := newVaultDouble(t)
	v.data["|secret/data/skein/shop/DB"] = map[string]any{"value": "value-of-db", "port": 5432}
	v.data["|secret/data/skein/shop/GONE"] = nil
	v.data["|secret/data/skein/shop/NUMBER"] = map[string]any{"value": 1234567}
	v.data["team|kv/data/apps/shop"] = map[string]any{"DB": "value-of-team"}
	file := tokenFile(t, "root-token\n")
	c := v.chain(t, fmt.Sprintf(`"token_file":%q`, file))
	c.is(t, "shop", "DB", "value-of-db")
	c.fails(t, "shop", "NONE", sealed.ErrNotFound, "vault: Vault has no secret skein/shop/NONE in secret")
	c.fails(t, "shop", "GONE", sealed.ErrNotFound)
	c.fails(t, "shop", "NUMBER", ErrRefused, "is not text")
	c.fails(t, "etl", "DB", sealed.ErrNotFound)
	team := v.chain(t, fmt.Sprintf(`"token_file":%q,"vault_namespace":"team","mount":"kv","path":"apps/{namespace}","field":"{name}"`, file))
	team.is(t, "shop", "DB", "value-of-team")
	team.fails(t, "shop", "OTHER", sealed.ErrNotFound, "has no field OTHER")
	if is := c.Check(t.Context())[0]; is.Err != nil || !strings.Contains(is.Found, v.URL) {
		t.Errorf("%+v", is)
	}
	write(t, file, "another-token", 0o600)
	c.fails(t, "shop", "DB", ErrRefused, "403", "permission denied")
	if is := c.Check(t.Context())[0]; is.Err == nil || !strings.Contains(is.Err.Error(), "permission denied") {
		t.Errorf("%+v", is)
	}
	v.tokens["another-token"] = true
	c.is(t, "shop", "DB", "value-of-db")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	c.fails(t, "shop", "DB", ErrRefused, "chmod 600")
}

// TestVaultSignsInOnce: many reads share a sign-in, a revoked token is replaced, and a token is not used
// longer than two thirds of its life.
func TestVaultSignsInOnce(t *testing.T) {
	v := newVaultDouble(t)
	for i := range 20 {
		v.data[fmt.Sprint("|secret/data/skein/shop/N", i)] = map[string]any{"value": fmt.Sprint("value-of-", i)}
	}
	c := v.chain(t, fmt.Sprintf(`"approle":{"role_id":"role-1","secret_id_file":%q}`, tokenFile(t, "secret-id-1\n")))
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { c.is(t, "shop", fmt.Sprint("N", i), fmt.Sprint("value-of-", i)) })
	}
	all.Wait()
	if len(v.logins) != 1 || v.logins[0] != "auth/approle/login role-1 secret-id-1" {
		t.Errorf("%d sign-ins: %q", len(v.logins), v.logins)
	}
	delete(v.tokens, "token-1")
	c.is(t, "shop", "N1", "value-of-1")
	if len(v.logins) != 2 {
		t.Errorf("%d sign-ins after the token was revoked", len(v.logins))
	}
	c = v.chain(t, fmt.Sprintf(`"approle":{"role_id":"role-1","secret_id_file":%q}`, tokenFile(t, "secret-id-1\n")))
	v.lease = -1
	c.fails(t, "shop", "N1", ErrRefused, "holds no token")
	v.lease = 1
	c.is(t, "shop", "N1", "value-of-1")
	s := len(v.logins)
	time.Sleep(time.Second) // longer than two thirds of its life
	c.is(t, "shop", "N1", "value-of-1")
	if len(v.logins) != s+1 {
		t.Errorf("an old token is used")
	}
}

// TestVaultForbiddenName: a name that the policy forbids costs no sign-in, and a token that Vault refuses
// altogether is replaced at most once in renewMin.
func TestVaultForbiddenName(t *testing.T) {
	v := newVaultDouble(t)
	v.data["|secret/data/skein/shop/DB"] = map[string]any{"value": "value-of-db"}
	v.denied = map[string]bool{"secret/data/skein/shop/OTHER": true}
	c := v.chain(t, fmt.Sprintf(`"approle":{"role_id":"role-1","secret_id_file":%q}`, tokenFile(t, "secret-id-1\n")))
	for range 3 {
		c.fails(t, "shop", "OTHER", ErrRefused, "403")
	}
	c.is(t, "shop", "DB", "value-of-db")
	if len(v.logins) != 1 {
		t.Errorf("%d sign-ins for a forbidden name", len(v.logins))
	}
	v.denied["auth/token/lookup-self"] = true // such a token cannot be distinguished from an invalid one
	for range 3 {
		c.fails(t, "shop", "OTHER", ErrRefused, "403")
	}
	if len(v.logins) != 2 {
		t.Errorf("%d sign-ins, and one more is allowed", len(v.logins))
	}
}

func TestVaultOtherSignIns(t *testing.T) {
	v := newVaultDouble(t)
	v.data["|secret/data/skein/shop/DB"] = map[string]any{"value": "value-of-db"}
	jwt := t.TempDir() + "/jwt"
	write(t, jwt, "a.b.c\n", 0o644) // with the mode that Kubernetes gives it
	v.chain(t, fmt.Sprintf(`"kubernetes":{"role":"skein","jwt_file":%q}`, jwt)).is(t, "shop", "DB", "value-of-db")
	v.chain(t, fmt.Sprintf(`"jwt":{"role":"ci","mount":"/gitlab/","jwt_file":%q}`, jwt)).is(t, "shop", "DB", "value-of-db")
	if got := fmt.Sprintf("%q", v.logins); got != `["auth/kubernetes/login skein a.b.c" "auth/gitlab/login ci a.b.c"]` {
		t.Error(got)
	}
	wrong := v.chain(t, fmt.Sprintf(`"approle":{"role_id":"r","secret_id_file":%q}`, tokenFile(t, "wrong-secret-id")))
	wrong.fails(t, "shop", "DB", ErrRefused, "sign in by auth/approle", "invalid role or secret ID")
	if _, err := wrong.Value(t.Context(), "shop", "DB", false); strings.Contains(err.Error(), "wrong-secret-id") {
		t.Errorf("the error shows what the node signs in with: %v", err)
	}
}

// TestVaultAway: if the server has an outage, the error is ErrAway, so the caller waits. If the server gives
// a wrong or hostile answer, the error is ErrRefused.
func TestVaultAway(t *testing.T) {
	v := newVaultDouble(t)
	v.data["|secret/data/skein/shop/DB"] = map[string]any{"value": "value-of-db"}
	file := tokenFile(t, "root-token")
	for name, s := range map[string]struct {
		fail func(w http.ResponseWriter, r *http.Request)
		kind error
		says string
	}{
		"sealed": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"errors":["Vault is sealed"]}`, http.StatusServiceUnavailable)
		}, ErrAway, "Vault is sealed"},
		"busy": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, ErrAway, "429"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/x", http.StatusTemporaryRedirect)
		}, ErrRefused, "active server"},
		"page": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>value-of-page") }, ErrRefused, "not that of a KV"},
		"version 1": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":{"value":"value-of-db"}}`) }, ErrRefused,
			"KV of version 2"},
		"huge": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", answerMax+1)) }, ErrRefused, "larger than"},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "{")
			panic(http.ErrAbortHandler)
		}, ErrAway, "EOF"},
		"odd": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, fmt.Sprintf(`{"errors":[%q]}`, strings.Repeat("é", 1000)+"\x00"), http.StatusBadRequest)
		}, ErrRefused, "400"},
	} {
		c := v.chain(t, fmt.Sprintf(`"token_file":%q`, file))
		v.mu.Lock()
		v.fail = func(w http.ResponseWriter, r *http.Request) bool { s.fail(w, r); return true }
		v.mu.Unlock()
		c.fails(t, "shop", "DB", s.kind, s.says)
		if _, err := c.Value(t.Context(), "shop", "DB", false); strings.Contains(err.Error(), "value-of") || len(err.Error()) > 1000 {
			t.Errorf("%s: the error shows the answer: %v", name, err)
		}
		v.mu.Lock()
		v.fail = nil
		v.mu.Unlock()
		c.sources[0].again = time.Time{}
		c.is(t, "shop", "DB", "value-of-db")
	}
	c := v.chain(t, fmt.Sprintf(`"token_file":%q`, file))
	v.Close()
	c.fails(t, "shop", "DB", ErrAway, "provider vault", "refused")
}

// TestRealVault reads from a server of Vault or OpenBao, if the machine has one in PATH. No package source of
// the project has one, so the other tests use vaultDouble.
func TestRealVault(t *testing.T) {
	program, address := "", "127.0.0.1:18299"
	for _, name := range []string{"bao", "vault"} {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" {
		t.Skip("there is neither bao nor vault in PATH; TestVaultReads uses a double of the API")
	}
	cmd := exec.CommandContext(t.Context(), program, "server", "-dev", "-dev-root-token-id=root-token", "-dev-listen-address="+address)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	call := func(path, body string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/"+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("X-Vault-Token", "root-token")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode >= 300 {
			return fmt.Errorf("%s: %s", path, resp.Status)
		}
		return nil
	}
	for began := time.Now(); call("secret/data/skein/shop/DB", `{"data":{"value":"value-of-db"}}`) != nil; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("the server does not answer")
		}
	}
	c := chain(t, fmt.Sprintf(`[{"vault":{"address":"http://%s","token_file":%q},"namespaces":["shop"]}]`, address, tokenFile(t, "root-token")))
	c.is(t, "shop", "DB", "value-of-db")
	c.fails(t, "shop", "NONE", sealed.ErrNotFound, "Vault has no secret")
	for _, is := range c.Check(t.Context()) {
		if is.Err != nil {
			t.Error(is.Err)
		}
	}
}
