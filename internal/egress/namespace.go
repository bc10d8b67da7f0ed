package egress

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
)

// Under returns the rules with the policy of a namespace added. Each policy must allow an address, so the
// result never allows more. If the policy is "", Under returns the rules unchanged.
func (r Rules) Under(namespace, policy string) Rules {
	if policy == "" {
		return r
	}
	if len(r.Policies) == 0 {
		r.Policies = []string{Public}
	}
	r.Policies, r.Namespace = append(slices.Clone(r.Policies), policy), namespace
	return r
}

// refusal returns the reason why a policy of the rules refuses an address, and the remedy.
func (r *Rules) refusal(policy int, a netip.Addr) string {
	is, network := r.Policies[policy], netip.PrefixFrom(a, a.BitLen())
	if r.Namespace != "" && policy == len(r.Policies)-1 {
		return fmt.Sprintf("the egress of namespace %s is %s; to allow it: skein namespace set %s --egress %s,%s", r.Namespace, is, r.Namespace, is, network)
	}
	return fmt.Sprintf("the setting egress of the node or the worker, or that of the namespace, is %s; to allow it, add the network %s to that setting", is, network)
}

// A RulesFor returns the rules for calls that a node makes for a namespace. The namespace "" stands for the
// installation. A call without rules must not be made, so the caller treats an error like a refusal.
type RulesFor func(ctx context.Context, namespace string) (Rules, error)

// Transport returns a transport for one call, because the rules may be different for the next call.
func (f RulesFor) Transport(ctx context.Context, namespace string) (http.RoundTripper, error) {
	rules, err := f(ctx, namespace)
	if err != nil {
		return nil, err
	}
	t, err := Transport(rules)
	if err != nil {
		return nil, err
	}
	t.DisableKeepAlives = true
	return t, nil
}

// Dialer returns a function that connects by the rules at the time of each connection. It uses no proxy.
func (f RulesFor) Dialer(namespace string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		rules, err := f(ctx, namespace)
		if err != nil {
			return nil, err
		}
		dial, err := Dialer(rules)
		if err != nil {
			return nil, err
		}
		return dial(ctx, network, address)
	}
}
