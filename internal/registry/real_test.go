package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"skein.dev/skein/internal/certificate/certtest"
	"skein.dev/skein/internal/identity/ldaptest"
	"skein.dev/skein/internal/registry"
	"skein.dev/skein/internal/registry/registrytest"
)

// sessionTTL is the time to live of sessions in the tests. An etcd with its defaults grants no shorter one.
const sessionTTL = 2 * time.Second

// patience bounds the wait of a test for a condition. No result depends on it.
const patience = time.Minute

func open(t *testing.T, address string) registry.Registry {
	t.Helper()
	s, err := registry.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return s.Open()
}

// announce begins a session. It tries until the registry answers: a server that takes connections may not be
// ready.
func announce(t *testing.T, r registry.Registry, uuid string) registry.Session {
	t.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		ctx, over := context.WithTimeout(t.Context(), 10*time.Second)
		s, err := r.Announce(ctx, registry.Life{UUID: uuid, Name: "n-" + uuid})
		over()
		if err == nil {
			return s
		}
		if time.Since(began) > patience {
			t.Fatal(err)
		}
	}
}

// lists waits until a session lists these lives. Meanwhile it renews the other sessions.
func lists(t *testing.T, s registry.Session, want []string, renewed ...registry.Session) {
	t.Helper()
	var is []string
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		var err error
		for _, r := range append(renewed, s) {
			err = errors.Join(err, r.Renew(t.Context()))
		}
		if err == nil {
			is, err = s.List(t.Context())
		}
		if slices.Sort(is); err == nil && slices.Equal(is, want) {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("it lists %v, %v; want %v", is, err, want)
		}
	}
}

// ended waits until Renew reports that a session has ended.
func ended(t *testing.T, s registry.Session) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		ctx, over := context.WithTimeout(t.Context(), time.Second)
		err := s.Renew(ctx)
		if err == nil {
			_, err = s.List(ctx)
		}
		over()
		if errors.Is(err, registry.ErrEnded) {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("it says %v", err)
		}
	}
}

// conform checks that a registry keeps the contract.
func conform(t *testing.T, server *registrytest.Server, scheme string) {
	link := registrytest.NewLink(t, server.Address)
	r := open(t, fmt.Sprintf("%s://%s/test/one?ttl=%v", scheme, server.Address, sessionTTL))
	far := open(t, fmt.Sprintf("%s://%s/test/one?ttl=%v", scheme, link.Address, sessionTTL))
	other := open(t, fmt.Sprintf("%s://%s/test/onemore?ttl=%v", scheme, server.Address, sessionTTL))

	a := announce(t, r, "a")
	b := announce(t, r, "b")
	x := announce(t, other, "x")
	lists(t, a, []string{"a", "b"}, b)
	lists(t, x, []string{"x"})
	if n, err := r.Probe(t.Context()); n != 2 || err != nil {
		t.Errorf("%d lives, %v", n, err)
	}
	if err := b.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	lists(t, a, []string{"a"})

	c := announce(t, far, "c")
	lists(t, a, []string{"a", "c"}, c)
	link.Cut(true)
	lists(t, a, []string{"a"})
	ctx, over := context.WithTimeout(t.Context(), 500*time.Millisecond)
	if err := c.Renew(ctx); err == nil {
		t.Error("a session was renewed over a link that is cut")
	}
	over()
	link.Cut(false)
	ended(t, c)
	again := announce(t, far, "c2")
	lists(t, a, []string{"a", "c2"}, again)

	server.Kill() // the registry loses its memory
	ctx, over = context.WithTimeout(t.Context(), time.Second)
	if list, err := a.List(ctx); err == nil {
		t.Errorf("a server that is gone lists %v", list)
	}
	over()
	server.Wipe()
	server.Start()
	ended(t, a)
	lists(t, announce(t, r, "d"), []string{"d"})
	for _, s := range []registry.Session{a, c, again, x} {
		ctx, over := context.WithTimeout(t.Context(), time.Second)
		_ = s.Leave(ctx) // the session may have ended
		over()
	}
}

// TestEtcd: etcd keeps the contract.
func TestEtcd(t *testing.T) { conform(t, registrytest.Etcd(t), "etcd") }

// TestZooKeeper: ZooKeeper keeps the contract.
func TestZooKeeper(t *testing.T) { conform(t, registrytest.ZooKeeper(t), "zookeeper") }

// TestZooKeeperOfAUser: only the user of the settings can access the entries.
func TestZooKeeperOfAUser(t *testing.T) {
	server := registrytest.ZooKeeper(t)
	settings, err := registry.Parse("zookeeper://" + server.Address + "/test?ttl=2s&user=skein")
	if err != nil {
		t.Fatal(err)
	}
	settings.PasswordFile = filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(settings.PasswordFile, []byte("Own-Secret-7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lists(t, announce(t, settings.Open(), "a"), []string{"a"})
	if n, err := settings.Open().Probe(t.Context()); n != 1 || err != nil {
		t.Errorf("%d lives, %v", n, err)
	}
	for _, user := range []string{"", "skein"} {
		other := settings
		other.User, other.PasswordFile = user, filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(other.PasswordFile, []byte("wrong"), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := other.Open().Probe(t.Context()); err == nil {
			t.Errorf("%q reads %d lives", user, n)
		}
	}
}

// TestZooKeeperSecured: the contract holds over TLS.
func TestZooKeeperSecured(t *testing.T) {
	dir := t.TempDir()
	ldaptest.Certificates(t, dir, "")
	var store []byte
	for _, name := range []string{"key.pem", "cert.pem"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		store = append(store, text...)
	}
	if err := os.WriteFile(filepath.Join(dir, "store.pem"), store, 0o600); err != nil {
		t.Fatal(err)
	}
	server := registrytest.ZooKeeper(t, "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory", "ssl.keyStore.location="+dir+"/store.pem",
		"ssl.trustStore.location="+dir+"/ca.pem", "ssl.clientAuth=none")
	r := open(t, "zookeepers://"+server.Address+"/test?ttl=2s&ca="+dir+"/ca.pem")
	s := announce(t, r, "s")
	lists(t, s, []string{"s"})
	if err := s.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := open(t, "zookeepers://"+server.Address+"/test").Probe(t.Context()); err == nil {
		t.Error("a server with a certificate of a stranger is trusted")
	}
}

// TestEtcdMutual: a server that requests a certificate gets the one of the settings.
func TestEtcdMutual(t *testing.T) {
	cert, key := certtest.Files(t)
	server := registrytest.Etcd(t, "--cert-file="+cert, "--key-file="+key, "--client-cert-auth", "--trusted-ca-file="+cert)
	shown := open(t, "etcds://"+server.Address+"/test?ttl=2s&ca="+cert+"&cert="+cert+"&key="+key)
	lists(t, announce(t, shown, "s"), []string{"s"})
	if _, err := open(t, "etcds://"+server.Address+"/test?ca="+cert).Probe(t.Context()); err == nil {
		t.Error("a node without a certificate is let in")
	}
}

// TestEtcdSecured: the contract holds over TLS, with a certificate of the node, and for a user with a
// password.
func TestEtcdSecured(t *testing.T) {
	dir := t.TempDir()
	ldaptest.Certificates(t, dir, "")
	plain := registrytest.Etcd(t)
	for _, call := range []struct{ what, body string }{
		{"user/add", `{"name":"root","password":"Root-1"}`}, {"role/add", `{"name":"root"}`}, {"user/grant", `{"user":"root","role":"root"}`},
		{"user/add", `{"name":"skein","password":"Own-Secret-7"}`}, {"role/add", `{"name":"skein"}`},
		{"role/grant", fmt.Sprintf(`{"name":"skein","perm":{"permType":"READWRITE","key":%s,"range_end":%s}}`, b64("/test/"), b64("/test0"))},
		{"user/grant", `{"user":"skein","role":"skein"}`}, {"enable", `{}`},
	} {
		post(t, "http://"+plain.Address+"/v3/auth/"+call.what, call.body)
	}
	password := filepath.Join(dir, "password")
	write := func(text string) {
		if err := os.WriteFile(password, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("wrong")
	settings, err := registry.Parse("etcd://" + plain.Address + "/test?ttl=2s&user=skein")
	if err != nil {
		t.Fatal(err)
	}
	settings.PasswordFile = password
	if _, err := settings.Open().Probe(t.Context()); err == nil {
		t.Error("a wrong password is enough")
	}
	write("Own-Secret-7")
	if err := os.Chmod(password, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := settings.Open().Probe(t.Context()); err == nil {
		t.Error("a password that all users can read is used")
	}
	if err := os.Chmod(password, 0o600); err != nil {
		t.Fatal(err)
	}
	a := announce(t, settings.Open(), "a")
	lists(t, a, []string{"a"})
	settings.Path = "/else"
	if _, err := settings.Open().Probe(t.Context()); err == nil {
		t.Error("the user can read everything")
	}

	secured := registrytest.Etcd(t, "--cert-file="+dir+"/cert.pem", "--key-file="+dir+"/key.pem", "--client-cert-auth=false")
	r := open(t, "etcds://"+secured.Address+"/test?ttl=2s&ca="+dir+"/ca.pem")
	lists(t, announce(t, r, "s"), []string{"s"})
	if _, err := open(t, "etcds://"+secured.Address+"/test").Probe(t.Context()); err == nil {
		t.Error("a server with a certificate of a stranger is trusted")
	}
}

func b64(text string) string {
	quoted, _ := json.Marshal([]byte(text)) // bytes have a form in JSON
	return string(quoted)
}

// post tries until the server is ready.
func post(t *testing.T, url, body string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Post(url, "application/json", bytes.NewBufferString(body))
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
			err = fmt.Errorf("%s: %s", url, resp.Status)
		}
		if time.Since(began) > patience {
			t.Fatal(err)
		}
	}
}
