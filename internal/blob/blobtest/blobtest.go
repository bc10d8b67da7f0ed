// Package blobtest checks stores of objects against the contract of package blob. It also has the parts that
// such tests need: a store in a folder, a server of the S3 protocol, and a proxy that injects faults.
package blobtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/blob"
)

// Run checks a store. open returns a store without objects.
func Run(t *testing.T, open func(t *testing.T) blob.Store) {
	for name, check := range map[string]func(*testing.T, blob.Store){
		"objects": objects, "absent": absent, "race": race, "large": large, "list": list, "delete": deletes, "keys": keys, "probe": probe,
	} {
		t.Run(name, func(t *testing.T) { check(t, open(t)) })
	}
}

// Put writes a small object.
func Put(t *testing.T, s blob.Store, key, content string) {
	t.Helper()
	if err := s.Put(t.Context(), key, strings.NewReader(content), int64(len(content)), blob.PutOptions{SHA256: Sum([]byte(content))}); err != nil {
		t.Fatal(err)
	}
}

// Get reads an object.
func Get(t *testing.T, s blob.Store, key string, offset, n int64) string {
	t.Helper()
	r, err := s.Open(t.Context(), key, offset, n)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Sum returns the digest of a content, in hexadecimal.
func Sum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Keys lists all keys with a prefix.
func Keys(t *testing.T, s blob.Store, prefix string) (keys []string) {
	t.Helper()
	for after := ""; ; {
		page, err := s.List(t.Context(), prefix, after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, is := range page {
			keys = append(keys, is.Key)
		}
		if len(page) < 1000 {
			return keys
		}
		after = page[len(page)-1].Key
	}
}

func objects(t *testing.T, s blob.Store) {
	const text = "0123456789"
	Put(t, s, "a/b", text)
	Put(t, s, "a/empty", "")
	for _, c := range []struct {
		offset, n int64
		want      string
	}{{0, -1, text}, {0, 3, "012"}, {4, 2, "45"}, {4, -1, "456789"}, {8, 10, "89"}, {0, 0, ""}, {0, 1, "0"}, {10, 5, ""}} {
		if got := Get(t, s, "a/b", c.offset, c.n); got != c.want {
			t.Errorf("from %d, %d bytes: %q, want %q", c.offset, c.n, got, c.want)
		}
	}
	if got := Get(t, s, "a/empty", 0, -1); got != "" {
		t.Errorf("empty: %q", got)
	}
	Put(t, s, "a/b", "other")
	if got := Get(t, s, "a/b", 0, -1); got != "other" {
		t.Errorf("again: %q", got)
	}
	if _, err := s.Open(t.Context(), "a/c", 0, -1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no object: %v", err)
	}
	err := s.Put(t.Context(), "a/c", strings.NewReader(text), int64(len(text)), blob.PutOptions{SHA256: Sum([]byte("x"))})
	if !errors.Is(err, blob.ErrCorrupt) {
		t.Errorf("another digest: %v", err)
	}
	if err := s.Put(t.Context(), "a/c", strings.NewReader(text), 20, blob.PutOptions{}); !errors.Is(err, blob.ErrCorrupt) {
		t.Errorf("another size: %v", err)
	}
	if _, err := s.Open(t.Context(), "a/c", 0, -1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an object was written: %v", err)
	}
}

func absent(t *testing.T, s blob.Store) {
	put := func(content string) error {
		return s.Put(t.Context(), "once", strings.NewReader(content), int64(len(content)), blob.PutOptions{IfAbsent: true})
	}
	if err := put("first"); err != nil {
		t.Fatal(err)
	}
	if err := put("second"); !errors.Is(err, blob.ErrExists) {
		t.Errorf("second: %v", err)
	}
	if got := Get(t, s, "once", 0, -1); got != "first" {
		t.Errorf("%q", got)
	}
	if err := s.Delete(t.Context(), "once"); err != nil {
		t.Fatal(err)
	}
	if err := put("third"); err != nil {
		t.Errorf("after a deletion: %v", err)
	}
}

// race checks that one of several concurrent writers wins, and that a reader gets the content of that writer.
func race(t *testing.T, s blob.Store) {
	const writers = 8
	var wg sync.WaitGroup
	wins := make([]bool, writers)
	for i := range writers {
		wg.Go(func() {
			text := fmt.Sprintf("writer %d", i)
			err := s.Put(t.Context(), "race", strings.NewReader(text), int64(len(text)), blob.PutOptions{IfAbsent: true})
			if wins[i] = err == nil; err != nil && !errors.Is(err, blob.ErrExists) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	won := slices.Index(wins, true)
	if won < 0 || slices.Contains(wins[won+1:], true) {
		t.Fatalf("winners: %v", wins)
	}
	if got := Get(t, s, "race", 0, -1); got != fmt.Sprintf("writer %d", won) {
		t.Errorf("%q, but writer %d won", got, won)
	}
}

// Random returns bytes that no compression makes smaller.
func Random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // rand.Read never fails
	return b
}

// large writes an object in several parts.
func large(t *testing.T, s blob.Store) {
	content := Random(blob.PartSize + 12345)
	put := func(sum string) error {
		return s.Put(t.Context(), "dir/large", bytes.NewReader(content), int64(len(content)), blob.PutOptions{SHA256: sum})
	}
	if err := put(Sum(nil)); !errors.Is(err, blob.ErrCorrupt) {
		t.Errorf("another digest: %v", err)
	}
	if err := put(Sum(content)); err != nil {
		t.Fatal(err)
	}
	if got := Get(t, s, "dir/large", 0, -1); got != string(content) {
		t.Errorf("%d other bytes", len(got))
	}
	if got := Get(t, s, "dir/large", blob.PartSize-5, 10); got != string(content[blob.PartSize-5:blob.PartSize+5]) {
		t.Error("other bytes at the border of parts")
	}
	if err := s.Abort(t.Context(), "", time.Now().Add(time.Hour)); err != nil {
		t.Errorf("abort: %v", err)
	}
	if got := Keys(t, s, ""); !slices.Equal(got, []string{"dir/large"}) {
		t.Errorf("%q", got)
	}
}

func list(t *testing.T, s blob.Store) {
	var want []string
	for _, key := range []string{"a/1", "a/2", "a/b/3", "a/b/4", "ab", "b", "x +%&?é/ü.txt"} {
		Put(t, s, key, key)
		want = append(want, key)
	}
	slices.Sort(want)
	if got := Keys(t, s, ""); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Keys(t, s, "a/"); !slices.Equal(got, []string{"a/1", "a/2", "a/b/3", "a/b/4"}) {
		t.Errorf("a/: %q", got)
	}
	page, err := s.List(t.Context(), "a", "a/1", 2)
	if err != nil || len(page) != 2 || page[0].Key != "a/2" || page[1].Key != "a/b/3" || page[1].Size != 5 {
		t.Errorf("page: %v %v", page, err)
	}
	if age := time.Since(page[0].Modified); age < -time.Hour || age > time.Hour {
		t.Errorf("modified %v", page[0].Modified)
	}
	if page, err = s.List(t.Context(), "none/", "", 10); err != nil || len(page) != 0 {
		t.Errorf("none: %v %v", page, err)
	}
}

func deletes(t *testing.T, s blob.Store) {
	for i := range 5 {
		Put(t, s, fmt.Sprintf("d/%d", i), "x")
	}
	for range 2 {
		if err := s.Delete(t.Context(), "d/0", "d/3", "d/none"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Delete(t.Context()); err != nil {
		t.Errorf("nothing: %v", err)
	}
	if got := Keys(t, s, "d/"); !slices.Equal(got, []string{"d/1", "d/2", "d/4"}) {
		t.Errorf("%q", got)
	}
}

func keys(t *testing.T, s blob.Store) {
	long := strings.Repeat("k", blob.KeyMax+1)
	if err := s.Put(t.Context(), long, strings.NewReader(""), 0, blob.PutOptions{}); !errors.Is(err, blob.ErrKey) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Put(ctx, "canceled", strings.NewReader("x"), 1, blob.PutOptions{}); err == nil {
		if got := Get(t, s, "canceled", 0, -1); got != "x" {
			t.Errorf("%q", got)
		}
	}
}

// probe checks that a store that can be used passes Probe repeatedly.
func probe(t *testing.T, s blob.Store) {
	for range 2 {
		if err := blob.Probe(t.Context(), s); err != nil {
			t.Error(err)
		}
	}
}
