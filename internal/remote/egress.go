package remote

import (
	"net/url"
	"slices"

	"skein.dev/skein/internal/egress"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/shared/local"
)

// wireOwn returns the addresses of Skein itself in the form of a message.
func wireOwn(all []egress.Own) []*workerv1.Own {
	out := make([]*workerv1.Own, len(all))
	for i, own := range all {
		out[i] = &workerv1.Own{What: own.What, Address: own.Address}
	}
	return out
}

// rules returns the addresses that a request may reach: those that both the home and this worker permit.
// Skein's own addresses are those in the job, and those of the nodes that this worker knows.
func (r *Worker) rules(policies []string, owns []*workerv1.Own) egress.Rules {
	out := egress.Rules{Policies: slices.Concat(policies, r.cfg.Egress.Policies), Proxy: r.cfg.Egress.Proxy}
	if len(out.Policies) == 0 && onLoopback(r.cfg.Servers) {
		out.Policies = []string{egress.Any}
	}
	for _, own := range owns {
		out.Own = append(out.Own, egress.Own{What: own.What, Address: own.Address})
	}
	for _, node := range r.s.Nodes() {
		if own, ok := egress.OwnURL("node", node); ok {
			out.Own = append(out.Own, own)
		}
	}
	return out
}

// onLoopback reports whether the URLs of all nodes are on this machine.
func onLoopback(servers []string) bool {
	for _, server := range servers {
		u, err := url.Parse(server)
		if err != nil || !local.Loopback(u.Hostname()) {
			return false
		}
	}
	return true
}
