package sealed

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/store"
)

// TestHookKeys: a webhook has at most three valid secrets, which end at their times. No call reads, sets,
// lists or deletes them by their names, and a change of the key keeps them.
func TestHookKeys(t *testing.T) {
	b := newBook(t, true)
	h := Hook{"shop", 7, "in"}
	other := Hook{"shop", 8, "in"}
	if _, err := b.HookKeys(t.Context(), h, 0); !errors.Is(err, ErrNotFound) {
		t.Fatalf("before the first: %v", err)
	}
	rotate := func(now, until int64) []HookKey {
		t.Helper()
		keys, err := b.RotateHook(t.Context(), h, "ann", now, until)
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	valid := func(now int64, want ...HookKey) {
		t.Helper()
		got, err := b.HookKeys(t.Context(), h, now)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("at %d: %v, %v; want %v", now, got, err, want)
		}
	}
	one := rotate(10, 20)
	if len(one) != 1 || one[0].Until != 0 || !strings.HasPrefix(one[0].Secret, "whsec_") || len(one[0].Secret) < 40 {
		t.Fatalf("%v", one)
	}
	two := rotate(10, 20)
	valid(19, two[0], HookKey{one[0].Secret, 20})
	valid(20, two[0])
	three := rotate(15, 30)
	valid(19, three[0], HookKey{two[0].Secret, 30}, HookKey{one[0].Secret, 20})
	var many *manyKeys
	if _, err := b.RotateHook(t.Context(), h, "ann", 16, 40); !errors.Is(err, ErrBusy) || !errors.As(err, &many) || many.earlier != 2 {
		t.Errorf("a fourth: %v", err)
	}
	valid(19, three[0], HookKey{two[0].Secret, 30}, HookKey{one[0].Secret, 20})
	if _, err := b.RotateHook(t.Context(), other, "ann", 16, 40); err != nil {
		t.Fatal(err)
	}
	if r, err := b.Rotate(t.Context(), true); err != nil || r.Sealed != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	four := rotate(20, 40)
	valid(25, four[0], HookKey{three[0].Secret, 40}, HookKey{two[0].Secret, 30})
	five := rotate(25, 25)
	valid(25, five[0])

	if _, _, err := b.Value(t.Context(), "shop", h.Name()); !errors.Is(err, ErrNotFound) {
		t.Errorf("read: %v", err)
	}
	if _, err := b.Set(t.Context(), "shop", h.Name(), []byte("a value of mine"), "ann"); !errors.Is(err, ErrInvalid) {
		t.Errorf("set: %v", err)
	}
	if err := b.Delete(t.Context(), "shop", h.Name()); !errors.Is(err, ErrNotFound) || !Reserved(h.Name()) {
		t.Errorf("delete: %v", err)
	}
	if _, err := b.Set(t.Context(), "shop", "PASSWORD", []byte("a value of mine"), "ann"); err != nil {
		t.Fatal(err)
	}
	// DropHooks deletes only the secrets of deleted workflows.
	if err := b.DropHooks(t.Context(), "shop", func(id int64) (bool, error) { return id == 8, nil }); err != nil {
		t.Fatal(err)
	}
	valid(25, five[0])
	if _, err := b.HookKeys(t.Context(), other, 16); !errors.Is(err, ErrNotFound) {
		t.Errorf("of a deleted workflow: %v", err)
	}
	if all, err := b.Store.SecretList(t.Context(), "shop", "", 10); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := b.Store.SecretOf(t.Context(), "shop", "PASSWORD"); errors.Is(err, store.ErrNotFound) {
		t.Error("a secret of people is deleted")
	}
}
