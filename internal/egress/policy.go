package egress

import (
	"fmt"
	"net/netip"
	"strings"
)

// Policies that are words.
const (
	Any    = "any"
	Public = "public"
)

// policyMax bounds the parts of a policy.
const policyMax = 256

// Policy says which addresses may be called. The zero Policy allows none.
type Policy struct {
	any, public bool
	nets        []netip.Prefix
}

// ParsePolicy reads a policy: any, public, a network such as 10.0.0.0/8, or several of these with commas. The
// policy allows an address if one of its parts contains it.
func ParsePolicy(text string) (Policy, error) {
	var p Policy
	parts := strings.Split(text, ",")
	if len(parts) > policyMax {
		return Policy{}, fmt.Errorf("the policy has %d parts, the limit is %d", len(parts), policyMax)
	}
	for _, part := range parts {
		switch part = strings.TrimSpace(part); part {
		case Any:
			p.any = true
		case Public:
			p.public = true
		default:
			n, err := netip.ParsePrefix(part)
			if err != nil {
				return Policy{}, fmt.Errorf("%q is not an address policy; write any, public, or a network such as 10.0.0.0/8", part)
			}
			if n != n.Masked() {
				return Policy{}, fmt.Errorf("the network %s has bits after its mask; write %s", part, n.Masked())
			}
			if n.Addr().Is4In6() {
				return Policy{}, fmt.Errorf("write the network %s with an IPv4 address", part)
			}
			p.nets = append(p.nets, n)
		}
	}
	return p, nil
}

// allows reports whether the policy allows an address. The address must be in the form that plain returns.
func (p *Policy) allows(a netip.Addr) bool {
	if p.any {
		return true
	}
	for _, n := range p.nets {
		if n.Contains(a) {
			return true
		}
	}
	return p.public && isPublic(a)
}

func prefixes(all ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(all))
	for i, text := range all {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

func has(list []netip.Prefix, a netip.Addr) bool {
	for _, n := range list {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// special4 and special6 are the networks that the registries of special-purpose addresses list as not
// reachable globally.
var (
	special4 = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4")
	special6 = prefixes("2001::/23", "2001:db8::/32", "3fff::/20")
	global6  = prefixes("2000::/3", "64:ff9b::/96")
)

// isPublic reports whether an address, and the IPv4 address within it, is reachable globally.
func isPublic(a netip.Addr) bool {
	if a.Is4() {
		return !has(special4, a)
	}
	if !has(global6, a) || has(special6, a) {
		return false
	}
	inner, ok := embedded(a)
	return !ok || isPublic(inner)
}

var (
	nat64   = prefixes("64:ff9b::/96", "64:ff9b:1::/48")
	sixTo4  = prefixes("2002::/16")
	compat4 = prefixes("::/96")
)

// embedded returns the IPv4 address that a gateway derives from an IPv6 address.
func embedded(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return a, false
	}
	b := a.As16()
	switch {
	case has(nat64, a), has(compat4, a):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case has(sixTo4, a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return a, false
}

// plain returns the canonical form of an address. It unwraps an IPv4 address inside IPv6 and removes a zone.
// It replaces the unspecified address with the loopback address, because a connection to one leads to the
// other.
func plain(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	switch a {
	case netip.IPv4Unspecified():
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case netip.IPv6Unspecified():
		return netip.IPv6Loopback()
	}
	return a
}

// metadata lists the addresses at which clouds give a machine its settings and credentials.
var metadata = map[netip.Addr]bool{
	netip.MustParseAddr("169.254.169.254"): true, // most clouds
	netip.MustParseAddr("169.254.170.2"):   true, // containers of Amazon ECS
	netip.MustParseAddr("169.254.170.23"):  true, // pods of Amazon EKS
	netip.MustParseAddr("fd00:ec2::254"):   true, // Amazon EC2
	netip.MustParseAddr("fd00:ec2::23"):    true, // pods of Amazon EKS
	netip.MustParseAddr("fd20:ce::254"):    true, // Google Cloud
	netip.MustParseAddr("168.63.129.16"):   true, // Azure
	netip.MustParseAddr("100.100.100.200"): true, // Alibaba Cloud
	netip.MustParseAddr("192.0.0.192"):     true, // Oracle Cloud
}

// isMetadata reports whether an address, or the IPv4 address within it, is in metadata.
func isMetadata(a netip.Addr) bool {
	inner, ok := embedded(a)
	return metadata[a] || ok && metadata[inner]
}
