package egress

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestUnder: the policy of a namespace is added to the others, never instead of them. A refusal by it names
// the namespace and the command that allows the address.
func TestUnder(t *testing.T) {
	node, _ := site(t, func(http.ResponseWriter, *http.Request) {})
	had := Rules{Policies: []string{Any}}
	is := had.Under("shop", Public)
	if !slices.Equal(is.Policies, []string{Any, Public}) || len(had.Policies) != 1 || had.Namespace != "" {
		t.Errorf("%+v, from %+v", is, had)
	}
	err := get(t, guardOf(t, is), node.URL)
	if r, ok := Refused(err); !ok || r.Code != CodePolicy || r.Why != "the egress of namespace shop is public; to allow it: skein namespace set shop --egress public,127.0.0.1/32" {
		t.Error(err)
	}
	for _, r := range []Rules{{Policies: []string{Public}}, {}} {
		err := get(t, guardOf(t, r.Under("shop", Any)), node.URL)
		if r, ok := Refused(err); !ok || !strings.Contains(r.Why, "the setting egress of the node") {
			t.Errorf("a namespace allows more than %v: %v", r, err)
		}
	}
	if err := get(t, guardOf(t, had.Under("shop", "")), node.URL); err != nil {
		t.Errorf("a namespace without a policy: %v", err)
	}
}

// TestRulesFor: each call and each connection obeys the rules that hold at its time. Without rules, none is
// made.
func TestRulesFor(t *testing.T) {
	node, _ := site(t, func(http.ResponseWriter, *http.Request) {})
	policy, fault := Any, error(nil)
	rules := RulesFor(func(_ context.Context, namespace string) (Rules, error) {
		return Rules{Policies: []string{Any}}.Under(namespace, policy), fault
	})
	call := func() error {
		tr, err := rules.Transport(t.Context(), "shop")
		if err != nil {
			return err
		}
		answer, err := (&http.Client{Transport: tr}).Get(node.URL)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	dialer := rules.Dialer("shop")
	dial := func() error {
		conn, err := dialer(t.Context(), "tcp", node.Listener.Addr().String())
		if err != nil {
			return err
		}
		return conn.Close()
	}
	if err := errors.Join(call(), dial()); err != nil {
		t.Fatal(err)
	}
	policy = Public
	for _, err := range []error{call(), dial()} {
		if _, ok := Refused(err); !ok {
			t.Errorf("under the new policy: %v", err)
		}
	}
	policy, fault = Any, errors.New("the store is away")
	for _, err := range []error{call(), dial()} {
		if !errors.Is(err, fault) {
			t.Errorf("without rules: %v", err)
		}
	}
}
