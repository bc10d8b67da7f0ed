package secret

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func oneKey(t *testing.T) Key {
	t.Helper()
	keys, err := ParseKeys([]byte(NewKey() + "\n"))
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d keys: %v", len(keys), err)
	}
	return keys[0]
}

func TestSeal(t *testing.T) {
	k, other := oneKey(t), oneKey(t)
	if k.ID() == other.ID() || len(k.ID()) != 2*idBytes {
		t.Errorf("ids %s and %s", k.ID(), other.ID())
	}
	value := []byte("hunter2-hunter2")
	wrapped, data, err := k.Seal("a\x00x\x001", value)
	if err != nil || bytes.Contains(data, value) || bytes.Contains(wrapped, value) {
		t.Fatalf("%q %q %v", wrapped, data, err)
	}
	if got, err := k.Open("a\x00x\x001", wrapped, data); err != nil || !bytes.Equal(got, value) {
		t.Errorf("opened %q, %v", got, err)
	}
	_, again, _ := k.Seal("a\x00x\x001", value)
	if bytes.Equal(again, data) {
		t.Error("two seals of a value are the same")
	}
	damaged := bytes.Clone(data)
	damaged[len(damaged)-1] ^= 1
	for name, open := range map[string]func() ([]byte, error){
		"another version": func() ([]byte, error) { return k.Open("a\x00x\x002", wrapped, data) },
		"another name":    func() ([]byte, error) { return k.Open("a\x00y\x001", wrapped, data) },
		"another key":     func() ([]byte, error) { return other.Open("a\x00x\x001", wrapped, data) },
		"changed":         func() ([]byte, error) { return k.Open("a\x00x\x001", wrapped, damaged) },
		"another seal":    func() ([]byte, error) { return k.Open("a\x00x\x001", wrapped, again) },
		"cut off":         func() ([]byte, error) { return k.Open("a\x00x\x001", wrapped[:5], data) },
		"swapped":         func() ([]byte, error) { return k.Open("a\x00x\x001", data, wrapped) },
	} {
		if got, err := open(); !errors.Is(err, ErrSeal) || got != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	next, err := k.Rewrap("a\x00x\x001", wrapped, other)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := other.Open("a\x00x\x001", next, data); err != nil || !bytes.Equal(got, value) {
		t.Errorf("with the new key: %q, %v", got, err)
	}
	if _, err := k.Open("a\x00x\x001", next, data); !errors.Is(err, ErrSeal) {
		t.Errorf("with the old key: %v", err)
	}
}

func TestParseKeys(t *testing.T) {
	two, err := ParseKeys([]byte(NewKey() + "\r\n\n  " + NewKey()))
	if err != nil || len(two) != 2 {
		t.Errorf("%d keys: %v", len(two), err)
	}
	for name, text := range map[string]string{"empty": "\n\n", "no base64": "hunter2-hunter2", "short": "aHVudGVyMg==", "many": strings.Repeat(NewKey()+"\n", keysMax+1)} {
		if keys, err := ParseKeys([]byte(text)); err == nil || keys != nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %d keys, %v", name, len(keys), err)
		}
	}
}
