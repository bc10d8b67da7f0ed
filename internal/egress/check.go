package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Check returns a RefusedError if the rules do not allow a call to HOST:PORT that another program makes. All
// addresses of the host must be allowed, because the caller does not know which one the program takes. If the
// rules name a proxy, the proxy resolves names, so Check compares only numeric addresses. Check returns
// another error if the name cannot be resolved.
func Check(ctx context.Context, r Rules, address string) error {
	g, err := newGuard(r)
	if err != nil {
		return err
	}
	return g.checkAll(ctx, address)
}

func (g *guard) checkAll(ctx context.Context, address string) error {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return fmt.Errorf("%.100q has no port", address)
	}
	for _, own := range g.rules.Own {
		if strings.EqualFold(own.Address, address) {
			return refusedOwn(address, own.What)
		}
	}
	if _, err := netip.ParseAddr(host); err != nil && g.rules.Proxy != "" {
		return nil
	}
	found, err := g.addresses(ctx, host)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("lookup %s: no such host", host)
	}
	if err != nil {
		return err
	}
	for _, a := range found {
		if err := g.check(ctx, netip.AddrPortFrom(a, uint16(port)), address, g.policies); err != nil {
			return err
		}
	}
	return nil
}
