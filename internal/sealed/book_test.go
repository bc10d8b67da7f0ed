package sealed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"skein.dev/skein/internal/secret"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

func newBook(t *testing.T, own bool) *Book {
	t.Helper()
	st := memory.New(memory.Options{})
	t.Cleanup(func() { _ = st.Close() })
	return &Book{Store: st, File: filepath.Join(t.TempDir(), "access", "secret.key"), Own: own}
}

func (b *Book) mustSet(t *testing.T, name, value string) {
	t.Helper()
	if _, err := b.Set(t.Context(), "shop", name, []byte(value), "ann"); err != nil {
		t.Fatal(err)
	}
}

func (b *Book) has(t *testing.T, name, want string) {
	t.Helper()
	got, _, err := b.Value(t.Context(), "shop", name)
	if err != nil || string(got) != want {
		t.Errorf("%s is %q, %v; want %q", name, got, err, want)
	}
}

func TestFirstSecretMakesTheKey(t *testing.T) {
	b := newBook(t, true)
	if is, err := b.Check(t.Context()); err != nil || is.ID != "" {
		t.Errorf("%+v, %v", is, err)
	}
	var all sync.WaitGroup
	for i := range 8 { // all nodes agree on one key
		all.Go(func() { b.mustSet(t, fmt.Sprint("N", i), fmt.Sprint("value-", i)) })
	}
	all.Wait()
	for i := range 8 {
		b.has(t, fmt.Sprint("N", i), fmt.Sprint("value-", i))
	}
	info, err := os.Stat(b.File)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if left, _ := os.ReadDir(filepath.Dir(b.File)); len(left) != 1 {
		t.Errorf("files left: %v", left)
	}
	b.mustSet(t, "N1", "another value")
	b.has(t, "N1", "another value")
	if _, version, _ := b.Value(t.Context(), "shop", "N1"); version != 2 {
		t.Errorf("version %d", version)
	}
	if err := b.Delete(t.Context(), "shop", "N1"); err != nil {
		t.Error(err)
	}
	if _, _, err := b.Value(t.Context(), "shop", "N1"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "skein secret set shop/N1") {
		t.Errorf("deleted: %v", err)
	}
}

// TestFirstSecretIsAudited: the first secret also sets the first key. These are two changes, and their rows
// differ.
func TestFirstSecretIsAudited(t *testing.T) {
	b := newBook(t, true)
	is := &store.Audit{Principal: "ann", Action: "set-secret", Object: "/secrets/shop/S", Namespace: "shop"}
	for range 2 {
		if _, err := b.Set(store.WithAudit(t.Context(), is), "shop", "S", []byte("long enough"), "ann"); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := b.Store.(store.AuditLog).AuditList(t.Context(), store.AuditQuery{Limit: 10})
	if err != nil || len(rows) != 3 {
		t.Fatalf("%+v, %v", rows, err)
	}
	key, err := b.Check(t.Context())
	if err != nil || rows[0].Detail != "" || rows[1].Detail != "" || rows[2].Detail != "key "+key.ID+" seals secrets from now on" {
		t.Errorf("%+v, %v", rows, err)
	}
}

func TestRefusedSecrets(t *testing.T) {
	b := newBook(t, true)
	for name, value := range map[string]string{"1A": "long enough", "": "long enough", "A-B": "long enough", "SHORT": "12345", "NUL": "abc\x00def",
		"BYTES": "abc\xff\xfedef", "LONG": strings.Repeat("x", ValueMax+1)} {
		if _, err := b.Set(t.Context(), "shop", name, []byte(value), "ann"); !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), value) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(b.File); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused secret made a key: %v", err)
	}
}

func TestOtherKey(t *testing.T) {
	b := newBook(t, true)
	b.mustSet(t, "A", "value-of-a")
	key, err := os.ReadFile(b.File)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what, says string) {
		t.Helper()
		_, err := b.Set(t.Context(), "shop", "A", []byte("value-two"), "ann")
		_, _, read := b.Value(t.Context(), "shop", "A")
		_, check := b.Check(t.Context())
		for _, err := range []error{err, read, check} {
			if !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	if err := os.Remove(b.File); err != nil {
		t.Fatal(err)
	}
	refused("no file", "restore it") // a new key would make the old secrets unreadable without a word
	if err := b.write(secret.NewKey()); err != nil {
		t.Fatal(err)
	}
	refused("another key", "sealed with key")
	if err := os.Chmod(b.File, 0o644); err != nil {
		t.Fatal(err)
	}
	refused("open file", "chmod 600")
	cluster := &Book{Store: b.Store}
	if _, err := cluster.Set(t.Context(), "shop", "A", []byte("value-two"), "ann"); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "--secret-key-file") {
		t.Errorf("a cluster without a file: %v", err)
	}
	if err := b.replace(string(key)); err != nil {
		t.Fatal(err)
	}
	b.has(t, "A", "value-of-a")
}

func TestRowsCannotBeSwapped(t *testing.T) {
	b := newBook(t, true)
	b.mustSet(t, "A", "value-of-a")
	b.mustSet(t, "B", "value-of-b")
	one, err := b.Store.SecretOf(t.Context(), "shop", "A")
	if err != nil {
		t.Fatal(err)
	}
	one.Name, one.Version = "B", 2
	if _, err := b.Store.PutSecret(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if got, _, err := b.Value(t.Context(), "shop", "B"); !errors.Is(err, secret.ErrSeal) || got != nil {
		t.Errorf("the row of A in the place of B: %q, %v", got, err)
	}
}

// TestRotate changes the key while values are set, and is interrupted after each step.
func TestRotate(t *testing.T) {
	b := newBook(t, true)
	if _, err := b.Rotate(t.Context(), true); !errors.Is(err, ErrInvalid) {
		t.Errorf("nothing to change: %v", err)
	}
	const all = rotateStep + 7
	for i := range all {
		b.mustSet(t, fmt.Sprint("N", i), fmt.Sprint("value-", i))
	}
	was, err := b.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Rotate(t.Context(), true)
	if err != nil || r.Sealed != rotateStep || !r.Left || r.Key == was.ID {
		t.Fatalf("first step: %+v, %v", r, err)
	}
	b.has(t, "N0", "value-0")
	b.has(t, fmt.Sprint("N", all-1), fmt.Sprint("value-", all-1)) // one secret for each key
	b.mustSet(t, "N1", "set meanwhile")
	next, err := b.Rotate(t.Context(), true) // the earlier change is completed first
	if err != nil || next.Left || next.Key != r.Key || next.Sealed != 7 {
		t.Fatalf("second step: %+v, %v", next, err)
	}
	b.has(t, "N1", "set meanwhile")
	text, err := os.ReadFile(b.File)
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := secret.ParseKeys(text); err != nil || len(keys) != 1 || keys[0].ID() != r.Key {
		t.Errorf("keys left: %d, %v", len(keys), err)
	}
	for i := 2; i < all; i++ {
		b.has(t, fmt.Sprint("N", i), fmt.Sprint("value-", i))
	}
}

// TestRotateCutOff interrupts a change at the point where a process may die: when the file has both keys.
func TestRotateCutOff(t *testing.T) {
	b := newBook(t, true)
	b.mustSet(t, "A", "value-of-a")
	b.Store = failing{b.Store}
	if _, err := b.Rotate(t.Context(), true); !errors.Is(err, store.ErrUnavailable) {
		t.Fatal(err)
	}
	b.Store = b.Store.(failing).Secrets
	b.has(t, "A", "value-of-a")
	b.mustSet(t, "B", "value-of-b")
	was, _ := b.Check(t.Context())
	r, err := b.Rotate(t.Context(), false)
	if err != nil || r.Sealed != 2 || r.Left || r.Key == was.ID {
		t.Errorf("%+v, %v", r, err)
	}
	b.has(t, "A", "value-of-a")
	b.has(t, "B", "value-of-b")
}

// TestValueDuringRotate reads a row before a change of keys, and the file after the change.
func TestValueDuringRotate(t *testing.T) {
	b := newBook(t, true)
	b.mustSet(t, "A", "value-of-a")
	b.Store = &turning{Secrets: b.Store, then: func() {
		if r, err := (&Book{Store: b.Store.(*turning).Secrets, File: b.File, Own: true}).Rotate(t.Context(), true); err != nil || r.Left {
			t.Errorf("%+v, %v", r, err)
		}
	}}
	b.has(t, "A", "value-of-a")
}

// turning is a store that calls a function once, after a secret was read.
type turning struct {
	store.Secrets
	then func()
	once sync.Once
}

func (s *turning) SecretOf(ctx context.Context, namespace, name string) (store.Secret, error) {
	is, err := s.Secrets.SecretOf(ctx, namespace, name)
	s.once.Do(s.then)
	return is, err
}

type failing struct{ store.Secrets }

func (failing) SetSecretKey(context.Context, string, string) error { return store.ErrUnavailable }

// TestRotateByPeople changes the key in a file that people maintain, like that of the nodes of a cluster.
func TestRotateByPeople(t *testing.T) {
	b := newBook(t, false)
	first, second := secret.NewKey(), secret.NewKey()
	if err := b.write(first + "\n"); err != nil {
		t.Fatal(err)
	}
	b.mustSet(t, "A", "value-of-a")
	if _, err := b.Rotate(t.Context(), true); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "last line") {
		t.Errorf("without a new key: %v", err)
	}
	if err := b.replace(first + "\n" + second + "\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Rotate(t.Context(), false); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "no change of keys has begun") {
		t.Errorf("nothing to continue: %v", err)
	}
	if r, err := b.Rotate(t.Context(), true); err != nil || r.Left || r.Sealed != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := b.replace(second + "\n"); err != nil {
		t.Fatal(err)
	}
	b.has(t, "A", "value-of-a")
}
