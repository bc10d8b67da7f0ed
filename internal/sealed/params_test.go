package sealed

import (
	"errors"
	"strings"
	"sync"
	"testing"
)

// TestParams: a sealed parameter opens only for the parameter, workflow and namespace for which it was
// sealed. The same value gives the same text, also after a change of the key.
func TestParams(t *testing.T) {
	b := newBook(t, true)
	const value = "canary-of-a-param"
	var all sync.WaitGroup
	texts := make([]string, 8)
	for i := range texts { // all callers agree on one key
		all.Go(func() {
			var err error
			if texts[i], err = b.SealParam(t.Context(), "shop", "w", "p", []byte(value)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	opens := func(ns, workflow, name, text string) bool {
		got, err := b.OpenParam(t.Context(), ns, workflow, name, text)
		if err != nil && strings.Contains(err.Error(), "canary-of-a-param") {
			t.Errorf("the error shows the value: %v", err)
		}
		return err == nil && string(got) == value
	}
	for _, text := range texts {
		if text != texts[0] || !strings.HasPrefix(text, ParamPrefix) || strings.Contains(text, value) || !opens("shop", "w", "p", text) {
			t.Fatalf("%q and %q", text, texts[0])
		}
	}
	if _, err := b.SealParam(t.Context(), "web", "w", "p", []byte("another")); err != nil {
		t.Fatal(err)
	}
	cut := texts[0][:len(texts[0])-2]
	for _, c := range [][4]string{{"web", "w", "p", texts[0]}, {"shop", "v", "p", texts[0]}, {"shop", "w", "q", texts[0]}, {"shop", "wp", "", texts[0]},
		{"none", "w", "p", texts[0]}, {"shop", "w", "p", cut}, {"shop", "w", "p", ParamPrefix}, {"shop", "w", "p", value}} {
		if opens(c[0], c[1], c[2], c[3]) {
			t.Errorf("%v opens", c)
		}
	}
	if r, err := b.Rotate(t.Context(), true); err != nil || r.Sealed != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if again, err := b.SealParam(t.Context(), "shop", "w", "p", []byte(value)); err != nil || again != texts[0] || !opens("shop", "w", "p", again) {
		t.Errorf("after a change of the key: %q, %v", again, err)
	}
	if _, err := b.SealParam(t.Context(), "shop", "w", "p", []byte("abc")); !errors.Is(err, ErrInvalid) {
		t.Errorf("a short value: %v", err)
	}
}

// TestParamKeyIsReserved: no caller reads, sets or deletes the key of parameters.
func TestParamKeyIsReserved(t *testing.T) {
	b := newBook(t, true)
	if _, err := b.SealParam(t.Context(), "shop", "w", "p", []byte("long enough")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Value(t.Context(), "shop", paramsName); !errors.Is(err, ErrNotFound) {
		t.Errorf("it can be read: %v", err)
	}
	if _, err := b.Set(t.Context(), "shop", paramsName, []byte("long enough"), "ann"); !errors.Is(err, ErrInvalid) {
		t.Errorf("it can be set: %v", err)
	}
	if err := b.Delete(t.Context(), "shop", paramsName); !errors.Is(err, ErrNotFound) {
		t.Errorf("it can be deleted: %v", err)
	}
	if IsName(paramsName) || !Reserved(paramsName) || Reserved("A") {
		t.Error("the name is not reserved")
	}
}
