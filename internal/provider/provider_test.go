package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/secret"
	"skein.dev/skein/internal/store/memory"
)

// anyNamespace is the check of namespaces in these tests.
func anyNamespace(ns string) error {
	if strings.ContainsAny(ns, "/ ") {
		return errors.New("names no namespace")
	}
	return nil
}

// settings parses a setting that must be valid.
func settings(t *testing.T, text string) Settings {
	t.Helper()
	s, err := Parse(text, anyNamespace)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// chain makes a chain over a store in memory.
func chain(t *testing.T, text string) *Chain {
	t.Helper()
	st := memory.New(memory.Options{})
	t.Cleanup(func() { _ = st.Close() })
	c, err := New(Options{Book: &sealed.Book{Store: st, File: filepath.Join(t.TempDir(), "key"), Own: true}, Settings: settings(t, text),
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *Chain) is(t *testing.T, namespace, name, want string) {
	t.Helper()
	got, err := c.Value(t.Context(), namespace, name, false)
	if err != nil || string(got) != want {
		t.Errorf("%s/%s is %q, %v; want %q", namespace, name, got, err, want)
	}
}

func (c *Chain) fails(t *testing.T, namespace, name string, kind error, says ...string) {
	t.Helper()
	got, err := c.Value(t.Context(), namespace, name, false)
	if !errors.Is(err, kind) || got != nil {
		t.Errorf("%s/%s is %q, %v; want the error %v", namespace, name, got, err, kind)
		return
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s/%s: %q does not say %q", namespace, name, err, part)
		}
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestParse(t *testing.T) {
	for text, says := range map[string]string{
		"": "", "[]": "",
		`[{"file":"/etc/skein/{namespace}/{name}","namespaces":["*"]},{"env":"","namespaces":["shop"]},{"command":["/bin/get"],"namespaces":["shop"],"cache":"0s"}]`: "",
		`[{"vault":{"address":"https://v:8200","token_file":"/t"},"namespaces":["shop"],"cache":"1m"}]`:                                                              "",
		`[{"vault":{"address":"http://127.0.0.1:8200/","approle":{"role_id":"r","secret_id_file":"/s"},"path":"x","field":"{name}"},"namespaces":["shop"]}]`:         "",
		`{}`:                         "write a list of providers",
		`[{"fil":"/x"}]`:             "unknown field",
		`[] x`:                       "text after",
		`[{"namespaces":["*"]}]`:     "it has 0 of the keys",
		`[{"file":"/etc/x/{name}"}]`: "namespaces is missing",
		`[{"file":"/etc/x/{name}","env":"A","namespaces":["*"]}]`:                                                     "it has 2 of the keys",
		`[{"file":"/etc/x/{name}","namespaces":["a/b"]}]`:                                                             "names no namespace",
		`[{"file":"x/{name}","namespaces":["*"]}]`:                                                                    "not an absolute path",
		`[{"file":"/etc/x/name","namespaces":["*"]}]`:                                                                 "write {name}",
		`[{"file":"/etc/x/{namespace}{name}","namespaces":["*"]}]`:                                                    "two namespaces the same secret",
		`[{"file":"/etc/x/{name}{namespace}","namespaces":["*"]}]`:                                                    "two namespaces the same secret",
		`[{"file":"/etc/x/{name}{key}","namespaces":["*"]}]`:                                                          "braces",
		`[{"file":"/etc/{name}","namespaces":["*"]}]`:                                                                 "separate folder",
		`[{"file":"/etc/x/../{name}","namespaces":["*"]}]`:                                                            "separate folder",
		`[{"file":"/etc/x/{name}","namespaces":["*"],"cache":"5m"}]`:                                                  "read at each use",
		`[{"command":["get"],"namespaces":["*"]}]`:                                                                    "not the absolute path",
		`[{"command":["/get"],"namespaces":["*"],"cache":"2d"}]`:                                                      "not a duration",
		`[{"command":["/get"],"namespaces":["*"],"cache":"48h"}]`:                                                     "not a duration",
		`[{"env":"A=","namespaces":["*"]}]`:                                                                           "letters, digits",
		`[{"name":"A b","env":"","namespaces":["*"]}]`:                                                                "not a provider name",
		`[{"env":"","namespaces":["*"]},{"env":"B","namespaces":["*"]}]`:                                              "has the name env",
		`[{"vault":{"address":"http://v:8200","token_file":"/t"},"namespaces":["*"]}]`:                                "not an https:// address",
		`[{"vault":{"address":"https://a:b@v","token_file":"/t"},"namespaces":["*"]}]`:                                "not an address such as",
		`[{"vault":{"address":"https://v"},"namespaces":["*"]}]`:                                                      "signs in by exactly one",
		`[{"vault":{"address":"https://v","token_file":"/t","jwt":{"role":"r","jwt_file":"/j"}},"namespaces":["*"]}]`: "signs in by exactly one",
		`[{"vault":{"address":"https://v","approle":{"role_id":"r"}},"namespaces":["*"]}]`:                            "secret_id_file is missing",
		`[{"vault":{"address":"https://v","kubernetes":{}},"namespaces":["*"]}]`:                                      "role is missing",
		`[{"vault":{"address":"https://v","token_file":"/t","path":"a//{name}"},"namespaces":["*"]}]`:                 "empty part",
		`[{"vault":{"address":"https://v","token_file":"/t","path":"../{name}"},"namespaces":["*"]}]`:                 "empty part",
		`[{"vault":{"address":"https://v","token_file":"/t","path":"a"},"namespaces":["*"]}]`:                         "write {name}",
		"[" + strings.Repeat(`{"env":"","namespaces":["*"]},`, sourcesMax) + `{"env":"","namespaces":["*"]}]`:         "at most 20",
	} {
		_, err := Parse(text, anyNamespace)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v; want %q", text, err, says)
		}
	}
	s := settings(t, `[{"file":"/etc/skein/{namespace}/x-{name}","namespaces":["*"]},{"vault":{"address":"https://v","kubernetes":{"role":"r"}},"namespaces":["shop"]}]`)
	if got := fmt.Sprint(s.Files()); got != "[/etc/skein "+podToken+"]" {
		t.Errorf("protected: %s", got)
	}
}

func TestFilesAndVariables(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/shop/DB", "value-of-db\n", 0o600)
	write(t, dir+"/shop/OPEN", "value-of-open", 0o644)
	write(t, dir+"/shop/SHORT", "short", 0o600)
	write(t, dir+"/shop/BYTES", "abc\xff\xfedef", 0o600)
	if err := os.Mkdir(dir+"/shop/FOLDER", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(VariablePrefix+"SHOP_KEY", "value-of-key")
	t.Setenv(VariablePrefix+"SHOP_DB", "never asked for")
	c := chain(t, fmt.Sprintf(`[{"file":%q,"namespaces":["shop","etl"]},{"env":"SHOP_","namespaces":["shop"]}]`, dir+"/{namespace}/{name}"))
	c.is(t, "shop", "DB", "value-of-db")
	c.is(t, "shop", "KEY", "value-of-key")
	c.fails(t, "etl", "KEY", sealed.ErrNotFound, "skein secret set etl/KEY", "file: there is no file "+dir+"/etl/KEY")
	c.fails(t, "other", "DB", sealed.ErrNotFound, "skein secret set other/DB")
	if _, err := c.Value(t.Context(), "other", "DB", false); strings.Contains(err.Error(), "provider") {
		t.Errorf("a namespace learns of providers that it may not use: %v", err)
	}
	c.fails(t, "shop", "OPEN", ErrRefused, "chmod 600")
	c.fails(t, "shop", "SHORT", ErrRefused, "shorter than 6")
	c.fails(t, "shop", "BYTES", ErrRefused, "not text")
	c.fails(t, "shop", "FOLDER", ErrRefused, "not a regular file")
	c.fails(t, "shop", "../shop/DB", sealed.ErrNotFound)
	c.fails(t, "shop", "NONE", sealed.ErrNotFound, "env: the node has no variable SKEIN_VALUE_SHOP_NONE")
	write(t, dir+"/shop/DB", "another value", 0o600) // the file is read at each use
	c.is(t, "shop", "DB", "another value")
	if _, err := c.book.Set(t.Context(), "shop", "DB", []byte("sealed value"), "ann"); err != nil {
		t.Fatal(err)
	}
	c.is(t, "shop", "DB", "sealed value")
	if err := c.book.Delete(t.Context(), "shop", "DB"); err != nil {
		t.Fatal(err)
	}
	c.is(t, "shop", "DB", "another value")
	if _, err := c.Value(t.Context(), "shop", "DB", true); !errors.Is(err, ErrSlow) {
		t.Errorf("a file at once: %v", err)
	}
	for _, is := range c.Check(t.Context()) {
		if is.Err != nil || is.Found == "" {
			t.Errorf("%+v", is)
		}
	}
}

func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/get"
	write(t, path, `#!/bin/sh
case $2 in
GOOD) echo "value of $1/$2" ;;
UNKNOWN) exit 66 ;;
AWAY) exit 75 ;;
BAD) echo "what-it-said" ; echo "what-it-said" >&2; exit 3 ;;
HUGE) exec yes ;;
ENV) env ;;
LEFT) sleep 1000 & echo "left behind" ;;
esac
`, 0o700)
	t.Setenv("SKEIN_API_TOKEN", "of-the-node")
	c := chain(t, fmt.Sprintf(`[{"command":[%q],"namespaces":["shop"],"cache":"0s"}]`, path))
	c.is(t, "shop", "GOOD", "value of shop/GOOD")
	c.is(t, "shop", "LEFT", "left behind")
	c.fails(t, "shop", "UNKNOWN", sealed.ErrNotFound, "command: the program get has none")
	c.fails(t, "shop", "AWAY", ErrAway, "exit code 75")
	c.fails(t, "shop", "GOOD", ErrAway) // the provider is not called again at once
	c.sources[0].again = time.Time{}
	c.fails(t, "shop", "BAD", ErrRefused, "exit status 3")
	if _, err := c.Value(t.Context(), "shop", "BAD", false); strings.Contains(err.Error(), "what-it-said") {
		t.Errorf("the error shows what the program said: %v", err)
	}
	c.fails(t, "shop", "HUGE", ErrRefused, "longer than")
	if env, err := c.Value(t.Context(), "shop", "ENV", false); err != nil || strings.Contains(string(env), "of-the-node") {
		t.Errorf("its variables: %q, %v", env, err)
	}
	if err := os.Chmod(path, 0o702); err != nil {
		t.Fatal(err)
	}
	if is := c.Check(t.Context())[0]; is.Err == nil || !strings.Contains(is.Err.Error(), "chmod o-w") {
		t.Errorf("%+v", is)
	}
	gone := chain(t, `[{"command":["/nonexistent/get"],"namespaces":["shop"]}]`)
	gone.fails(t, "shop", "GOOD", ErrRefused, "cannot be started")
}

// fake replaces the reader of the only provider.
func fake(t *testing.T, cache string, get getter) *Chain {
	t.Helper()
	c := chain(t, fmt.Sprintf(`[{"command":["/bin/true"],"namespaces":["shop"],"cache":%q}]`, cache))
	c.sources[0].get = get
	return c
}

// TestCache: a value is kept for its age, calls for one secret are shared, and failures are not kept.
func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		fail := errors.New("")
		c := fake(t, "5m", func(_ context.Context, ns, name string) ([]byte, error) {
			time.Sleep(time.Second)
			n := calls.Add(1)
			if fail != nil && name == "BAD" {
				return nil, fail
			}
			return fmt.Appendf(nil, "%s/%s number %d", ns, name, n), nil
		})
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { c.is(t, "shop", "A", "shop/A number 1") })
		}
		all.Wait()
		if _, err := c.Value(t.Context(), "shop", "A", true); err != nil {
			t.Errorf("a kept value is not there at once: %v", err)
		}
		got, _ := c.Value(t.Context(), "shop", "A", false)
		copy(got, "XXXX") // a caller's copy
		c.is(t, "shop", "A", "shop/A number 1")
		time.Sleep(5 * time.Minute)
		if _, err := c.Value(t.Context(), "shop", "A", true); !errors.Is(err, ErrSlow) {
			t.Errorf("an old value: %v", err)
		}
		c.is(t, "shop", "A", "shop/A number 2")
		fail = ErrRefused
		c.fails(t, "shop", "BAD", ErrRefused)
		fail = nil
		c.is(t, "shop", "BAD", "shop/BAD number 4")
		for i := range entriesMax + 100 {
			c.is(t, "shop", fmt.Sprint("N", i), fmt.Sprintf("shop/N%d number %d", i, 5+i))
		}
		if n := len(c.sources[0].kept); n > entriesMax {
			t.Errorf("%d values are kept", n)
		}
		size := 0
		for _, k := range c.sources[0].kept {
			size += len(k.value)
		}
		if size != c.sources[0].bytes {
			t.Errorf("%d bytes are kept, and counted as %d", size, c.sources[0].bytes)
		}
	})
}

// TestHangingProvider: a provider that hangs does not delay other providers, and delays its own callers for a
// bounded time. Only a few calls of it run at a time.
func TestHangingProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at, most atomic.Int64
		end := make(chan struct{})
		c := fake(t, "5m", func(ctx context.Context, _, name string) ([]byte, error) {
			if now := at.Add(1); now > most.Load() {
				most.Store(now)
			}
			defer at.Add(-1)
			if strings.HasPrefix(name, "DEAF") {
				<-end // the reader ignores the end of ctx
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		began := time.Now()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() { c.fails(t, "shop", fmt.Sprint("N", i), ErrAway, "within 10s") })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := c.Value(ctx, "shop", "MINE", false); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("a caller that does not wait: %v after %s", err, time.Since(began))
		}
		cancel()
		all.Wait()
		if took := time.Since(began); took > 2*callMax {
			t.Errorf("the callers waited for %s", took)
		}
		if most.Load() > callsMax {
			t.Errorf("%d calls at a time", most.Load())
		}
		synctest.Wait()
		time.Sleep(2 * awayMin)
		for i := range callsMax {
			all.Go(func() { c.fails(t, "shop", fmt.Sprint("DEAF", i), ErrAway) })
		}
		all.Wait()
		time.Sleep(2 * awayMin)
		c.fails(t, "shop", "N1", ErrAway, "the calls before this one")
		time.Sleep(2 * awayMin)
		close(end)
		synctest.Wait()
		c.sources[0].get = func(context.Context, string, string) ([]byte, error) { return []byte("answered"), nil }
		c.is(t, "shop", "N1", "answered")
	})
}

func TestPanickingProvider(t *testing.T) {
	c := fake(t, "5m", func(context.Context, string, string) ([]byte, error) { panic("oops") })
	c.fails(t, "shop", "A", ErrRefused, "panicked")
}

// TestLyingProvider: values that cannot be masked are refused, and an error never holds one.
func TestLyingProvider(t *testing.T) {
	for _, value := range []string{"", "12345", "abc\x00def", "abc\xffdef", strings.Repeat("x", secret.ValueMax+1)} {
		c := fake(t, "5m", func(context.Context, string, string) ([]byte, error) { return []byte(value), nil })
		c.fails(t, "shop", "A", ErrRefused)
		if _, err := c.Value(t.Context(), "shop", "A", false); value != "" && strings.Contains(err.Error(), value) {
			t.Errorf("the error holds the value: %.100v", err)
		}
	}
}
