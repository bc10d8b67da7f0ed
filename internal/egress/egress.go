package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Rules says which addresses a call may reach. The zero Rules allows only public addresses. All fields are
// texts, because the rules of an attempt are sent to other processes.
type Rules struct {
	Policies []string // see ParsePolicy; every policy must allow an address; if there is none, Public applies
	// Namespace is the namespace whose policy is the last one of Policies. It is "" if none of them belongs to
	// a namespace.
	Namespace string `json:",omitempty"`
	Own       []Own  // the addresses of Skein itself
	// Proxy is the URL of the proxy for all calls, or Environment. If it is "", calls are direct.
	Proxy string
}

// Environment is a value of Rules.Proxy. It stands for the proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY of
// the process name.
const Environment = "environment"

// Own is an address of Skein itself.
type Own struct {
	What    string // description for people, such as node or database
	Address string // HOST:PORT; if the host is this machine, the port is refused on all of its addresses
}

// OwnURL returns the address in a URL of Skein itself. It returns false if the text is not a URL.
func OwnURL(what, text string) (Own, bool) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return Own{}, false
	}
	return Own{what, hostPort(u)}, true
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Codes of a RefusedError.
const (
	CodeOwn      = "own_address"
	CodeMetadata = "metadata_address"
	CodePolicy   = "egress_policy"
	CodeUnknown  = "address_unknown" // an address of Skein is unknown, so it cannot be compared
)

// RefusedError reports a call that the rules do not allow. Nothing was sent.
type RefusedError struct {
	Code    string
	Address string // the address that was to be dialled
	Why     string // the rule and the remedy
}

func (e *RefusedError) Error() string { return e.Address + " is refused (" + e.Code + "): " + e.Why }

// Refused finds a RefusedError in an error from package http.
func Refused(err error) (*RefusedError, bool) {
	var r *RefusedError
	return r, errors.As(err, &r)
}

const (
	dialTimeout = 30 * time.Second
	ownTimeout  = 5 * time.Second // bounds the resolution of the name of a node or the database
)

// guard checks addresses against rules.
type guard struct {
	rules    Rules
	policies []Policy
	resolver *net.Resolver // nil stands for the resolver of the process
	// environment returns the proxy that the environment of the process names for a request.
	environment func(*http.Request) (*url.URL, error)

	mu      sync.Mutex // protects following fields
	proxies []string   // HOST:PORT of each proxy that the rules have chosen
}

func newGuard(r Rules) (*guard, error) {
	g := &guard{rules: r, environment: http.ProxyFromEnvironment}
	if len(r.Policies) == 0 {
		g.rules.Policies = []string{Public}
	}
	for _, text := range g.rules.Policies {
		p, err := ParsePolicy(text)
		if err != nil {
			return nil, fmt.Errorf("setting egress: %w", err)
		}
		g.policies = append(g.policies, p)
	}
	return g, nil
}

// Transport makes only connections that the rules allow. It ignores the proxy variables of the environment
// unless the rules name them. The caller may set any field except Proxy and those for dialling.
func Transport(r Rules) (*http.Transport, error) {
	g, err := newGuard(r)
	if err != nil {
		return nil, err
	}
	return g.transport()
}

func (g *guard) transport() (*http.Transport, error) {
	t := &http.Transport{DialContext: g.dial, ForceAttemptHTTP2: true, TLSHandshakeTimeout: dialTimeout}
	if g.rules.Proxy == "" {
		return t, nil
	}
	choose := g.environment
	if g.rules.Proxy != Environment {
		u, err := ParseProxy(g.rules.Proxy)
		if err != nil {
			return nil, fmt.Errorf("setting egress_proxy: %w", err)
		}
		choose = http.ProxyURL(u)
	}
	t.Proxy = func(req *http.Request) (*url.URL, error) { return g.proxy(req, choose) }
	return t, nil
}

// ParseProxy reads the URL of a proxy.
func ParseProxy(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("the value is neither environment nor the URL of a proxy, such as http://proxy:3128")
	}
	return u, nil
}

// proxy chooses the proxy for a request. If the request names a numeric address, proxy also checks it against
// the rules, because the proxy server will dial it.
func (g *guard) proxy(req *http.Request, choose func(*http.Request) (*url.URL, error)) (*url.URL, error) {
	u, err := choose(req)
	if err != nil || u == nil {
		return nil, err
	}
	target := hostPort(req.URL)
	for _, own := range g.rules.Own {
		if strings.EqualFold(own.Address, target) {
			return nil, refusedOwn(target, own.What)
		}
	}
	if at, err := netip.ParseAddrPort(target); err == nil {
		if err := g.check(req.Context(), at, target, g.policies); err != nil {
			return nil, err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if address := hostPort(u); !slices.Contains(g.proxies, address) {
		g.proxies = append(g.proxies, address)
	}
	return u, nil
}

// dial connects to one of the addresses of a name. It checks each address before it connects.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	policies := g.policies
	g.mu.Lock()
	if slices.Contains(g.proxies, address) {
		policies = nil
	}
	g.mu.Unlock()
	d := net.Dialer{Timeout: dialTimeout, Resolver: g.resolver, ControlContext: func(ctx context.Context, _, dialled string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(dialled)
		if err != nil {
			return &RefusedError{CodeUnknown, dialled, "it is no address of the internet protocols"}
		}
		return g.check(ctx, at, address, policies)
	}}
	return d.DialContext(ctx, network, address)
}

// check returns an error if a rule does not allow an address. named is the address as the caller wrote it.
func (g *guard) check(ctx context.Context, at netip.AddrPort, named string, policies []Policy) error {
	a := plain(at.Addr())
	shown := netip.AddrPortFrom(a, at.Port()).String()
	if named != shown {
		shown = named + " (" + shown + ")"
	}
	if isMetadata(a) {
		return &RefusedError{CodeMetadata, shown, "it is an address at which a cloud gives credentials to a machine, and no setting allows it"}
	}
	if err := g.own(ctx, a, at.Port(), shown); err != nil {
		return err
	}
	for i := range policies {
		if !policies[i].allows(a) {
			return &RefusedError{CodePolicy, shown, g.rules.refusal(i, a)}
		}
	}
	return nil
}

func refusedOwn(shown, what string) error {
	return &RefusedError{CodeOwn, shown, "it is the address of a " + what + " of Skein, and no setting allows it"}
}

// own returns an error for an address of Skein itself. A node may listen on addresses of its machine that it
// does not advertise. So if the node is on this machine, its port is refused on all addresses of the machine.
func (g *guard) own(ctx context.Context, a netip.Addr, port uint16, shown string) error {
	forms := []netip.Addr{a}
	if inner, ok := embedded(a); ok {
		forms = append(forms, plain(inner))
	}
	for _, own := range g.rules.Own {
		host, text, err := net.SplitHostPort(own.Address)
		if err != nil || text != strconv.Itoa(int(port)) {
			continue
		}
		theirs, err := g.addresses(ctx, host)
		if err != nil {
			return &RefusedError{CodeUnknown, shown, fmt.Sprintf("it has the port of a %s of Skein, whose name %s cannot be resolved: %v", own.What, host, err)}
		}
		here := slices.ContainsFunc(theirs, local)
		for _, form := range forms {
			if slices.Contains(theirs, form) || here && local(form) {
				return refusedOwn(shown, own.What)
			}
		}
	}
	return nil
}

// addresses resolves a host of Skein. If the name does not exist, it returns no address and no error.
func (g *guard) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if host == "" {
		host = "0.0.0.0"
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{plain(a)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, ownTimeout)
	defer cancel()
	resolver := g.resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	found, err := resolver.LookupNetIP(ctx, "ip", host)
	var missing *net.DNSError
	if errors.As(err, &missing) && missing.IsNotFound {
		return nil, nil
	}
	for i := range found {
		found[i] = plain(found[i])
	}
	return found, err
}

// local reports whether an address belongs to this machine. It returns true if it cannot find out.
func local(a netip.Addr) bool {
	if a.IsLoopback() {
		return true
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	return slices.ContainsFunc(all, func(own net.Addr) bool {
		n, ok := own.(*net.IPNet)
		if !ok {
			return false
		}
		at, ok := netip.AddrFromSlice(n.IP)
		return ok && plain(at) == a
	})
}

// Dialer returns a function that connects only to addresses that the rules allow. It uses no proxy.
func Dialer(r Rules) (func(ctx context.Context, network, address string) (net.Conn, error), error) {
	g, err := newGuard(r)
	if err != nil {
		return nil, err
	}
	return g.dial, nil
}
