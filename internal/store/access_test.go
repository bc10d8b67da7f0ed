package store

import (
	"errors"
	"fmt"
	"testing"
)

// TestFits: a change is refused if it gives a principal more bindings than one may have, because then none of
// them would be valid.
func TestFits(t *testing.T) {
	var r Rights
	for i := range BindingsOfOneMax {
		r.Bindings = append(r.Bindings, Binding{Subject: 7, Role: "viewer", Namespace: fmt.Sprint("n", i)})
	}
	for _, c := range []struct {
		bind Binding
		want error
	}{
		{Binding{Subject: 7, Role: "viewer", Namespace: "one-more"}, ErrRefused},
		{Binding{Subject: 7, Role: "viewer", Namespace: "n0", Expires: 9}, nil}, // the binding exists, and gets another end
		{Binding{Subject: 8, Role: "viewer", Namespace: "one-more"}, nil},
	} {
		if err := r.Fits(&RightsChange{Bind: []Binding{c.bind}}); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.bind, err, c.want)
		}
	}
	// A binding takes the place of one that the same change removes.
	for n, want := range map[int]error{1: nil, 2: ErrRefused} {
		c := RightsChange{Unbind: r.Bindings[:1]}
		for i := range n {
			c.Bind = append(c.Bind, Binding{Subject: 7, Role: "viewer", Namespace: fmt.Sprint("new", i)})
		}
		if err := r.Fits(&c); !errors.Is(err, want) {
			t.Errorf("%d for one: %v, want %v", n, err, want)
		}
	}
}
