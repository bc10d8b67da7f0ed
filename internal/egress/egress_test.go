package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// site starts a server on loopback that counts its requests.
func site(t *testing.T, h http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var reached atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h(w, r) }))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			reached.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s, &reached
}

func port(t *testing.T, s *httptest.Server) string {
	t.Helper()
	_, p, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// get calls an address under the rules of g.
func get(t *testing.T, g *guard, url string) error {
	t.Helper()
	rt, err := g.transport()
	if err != nil {
		t.Fatal(err)
	}
	rt.DisableKeepAlives = true
	client := http.Client{Transport: rt, CheckRedirect: func(r *http.Request, via []*http.Request) error { return Redirect(r, via, nil) }}
	res, err := client.Get(url)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.Body.Close()
}

func guardOf(t *testing.T, r Rules) *guard {
	t.Helper()
	g, err := newGuard(r)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestOwnAddress checks that no spelling of a node's address reaches the node, even if every address is
// allowed.
func TestOwnAddress(t *testing.T) {
	node, reached := site(t, func(http.ResponseWriter, *http.Request) {})
	p := port(t, node)
	other, _ := site(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, node.URL, http.StatusFound) })
	for _, own := range []string{"127.0.0.1:" + p, "0.0.0.0:" + p, "[::]:" + p, ":" + p, "localhost:" + p} {
		g := guardOf(t, Rules{Policies: []string{Any}, Own: []Own{{"node", own}}})
		for _, url := range []string{"http://127.0.0.1:" + p, "http://localhost:" + p, "http://0.0.0.0:" + p, "http://[::ffff:127.0.0.1]:" + p,
			"http://[::]:" + p, "http://[::1]:" + p, "http://127.1.2.3:" + p, "http://[::127.0.0.1]:" + p, other.URL} {
			err := get(t, g, url)
			if r, ok := Refused(err); !ok || r.Code != CodeOwn {
				t.Errorf("own address %s: a call of %s: %v, want it refused with %s", own, url, err, CodeOwn)
			}
		}
		if err := get(t, g, "http://"+other.Listener.Addr().String()+"/"); err == nil {
			t.Error("the redirect to the node was followed")
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d connections reached the node", n)
	}
	if err := get(t, guardOf(t, Rules{Policies: []string{Any}, Own: []Own{{"node", "127.0.0.1:1"}}}), node.URL); err != nil {
		t.Errorf("another port of this machine: %v", err)
	}
}

// TestOwnAddressOfThisMachine checks that an advertised address of this machine also covers the loopback
// address, because the node may listen on all addresses.
func TestOwnAddressOfThisMachine(t *testing.T) {
	node, _ := site(t, func(http.ResponseWriter, *http.Request) {})
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.IsLinkLocalUnicast() {
			continue
		}
		own := net.JoinHostPort(n.IP.String(), port(t, node))
		err := get(t, guardOf(t, Rules{Policies: []string{Any}, Own: []Own{{"node", own}}}), node.URL)
		if r, ok := Refused(err); !ok || r.Code != CodeOwn {
			t.Errorf("own address %s: %v", own, err)
		}
	}
}

// TestPolicyAtEveryHop checks that each address of a redirect is checked, at the moment when it is dialled.
func TestPolicyAtEveryHop(t *testing.T) {
	inside, reached := site(t, func(http.ResponseWriter, *http.Request) {})
	outside, _ := site(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(inside.URL, "127.0.0.1", "127.0.0.2", 1), http.StatusFound)
	})
	g := guardOf(t, Rules{Policies: []string{"127.0.0.1/32"}})
	err := get(t, g, outside.URL)
	if r, ok := Refused(err); !ok || r.Code != CodePolicy || !strings.Contains(err.Error(), "127.0.0.2/32") || !strings.Contains(err.Error(), "egress") {
		t.Errorf("a redirect out of the network: %v", err)
	}
	if err := get(t, g, inside.URL); err != nil {
		t.Error(err)
	}
	before := reached.Load()
	for _, policies := range [][]string{nil, {Public}, {Any, Public}, {Public, Any}, {"10.0.0.0/8,public"}} {
		for _, url := range []string{inside.URL, "http://0.0.0.0:" + port(t, inside), "http://[::ffff:127.0.0.1]:" + port(t, inside)} {
			err := get(t, guardOf(t, Rules{Policies: policies}), url)
			if r, ok := Refused(err); !ok || r.Code != CodePolicy {
				t.Errorf("policies %q, %s: %v", policies, url, err)
			}
		}
	}
	if n := reached.Load() - before; n != 0 {
		t.Errorf("%d connections were made that the policy does not allow", n)
	}
}

// TestRebinding checks that a call does not reach a node through a name that resolves first to an allowed
// address, and then to the node.
func TestRebinding(t *testing.T) {
	node, reached := site(t, func(http.ResponseWriter, *http.Request) {})
	dns := newDNS(t)
	g := guardOf(t, Rules{Policies: []string{"127.0.0.1/32"}, Own: []Own{{"node", node.Listener.Addr().String()}}})
	g.resolver = dns.resolver()
	dns.answer.Store(&[4]byte{192, 0, 2, 1})
	if r, ok := Refused(get(t, g, "http://rebind.example:"+port(t, node))); !ok || r.Code != CodePolicy {
		t.Errorf("the first address: %v", r)
	}
	dns.answer.Store(&[4]byte{127, 0, 0, 1})
	err := get(t, g, "http://rebind.example:"+port(t, node))
	if r, ok := Refused(err); !ok || r.Code != CodeOwn || !strings.Contains(err.Error(), "rebind.example") {
		t.Errorf("the second address: %v", err)
	}
	dns.answer.Store(&[4]byte{169, 254, 169, 254})
	any := guardOf(t, Rules{Policies: []string{Any}})
	any.resolver = dns.resolver()
	if r, ok := Refused(get(t, any, "http://rebind.example/latest/meta-data")); !ok || r.Code != CodeMetadata {
		t.Errorf("a name of the metadata address: %v", r)
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d connections reached the node", n)
	}
	if dns.asked.Load() == 0 {
		t.Error("the resolver was not asked")
	}
}

// TestOwnName checks that the names of nodes are resolved. If that fails, their port is refused. A name that
// does not exist has no address.
func TestOwnName(t *testing.T) {
	node, _ := site(t, func(http.ResponseWriter, *http.Request) {})
	dns := newDNS(t)
	g := guardOf(t, Rules{Policies: []string{Any}, Own: []Own{{"node", "node-1.example:" + port(t, node)}}})
	g.resolver = dns.resolver()
	dns.answer.Store(&[4]byte{127, 0, 0, 1})
	if r, ok := Refused(get(t, g, node.URL)); !ok || r.Code != CodeOwn {
		t.Errorf("by its name: %v", r)
	}
	dns.answer.Store(nil) // the name does not exist
	if err := get(t, g, node.URL); err != nil {
		t.Errorf("a name that does not exist: %v", err)
	}
	g.resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route") }}
	if r, ok := Refused(get(t, g, node.URL)); !ok || r.Code != CodeUnknown {
		t.Errorf("a name that cannot be resolved: %v", r)
	}
}

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		address  string
		public   bool
		metadata bool
	}{
		{"93.184.216.34", true, false}, {"2606:2800:220:1::1", true, false}, {"64:ff9b::5db8:d822", true, false},
		{"10.1.2.3", false, false}, {"172.31.255.255", false, false}, {"192.168.0.1", false, false}, {"100.64.0.1", false, false},
		{"127.0.0.1", false, false}, {"0.0.0.0", false, false}, {"0.1.2.3", false, false}, {"169.254.1.1", false, false},
		{"198.18.0.1", false, false}, {"224.0.0.1", false, false}, {"255.255.255.255", false, false}, {"240.0.0.1", false, false},
		{"::1", false, false}, {"::", false, false}, {"fe80::1", false, false}, {"fe80::1%eth0", false, false}, {"fc00::1", false, false},
		{"ff02::1", false, false}, {"2001:db8::1", false, false}, {"2001::1", false, false}, {"::ffff:10.0.0.1", false, false},
		{"64:ff9b::a00:1", false, false}, {"2002:7f00:1::", false, false}, {"::127.0.0.1", false, false}, {"64:ff9b:1::a00:1", false, false},
		{"169.254.169.254", false, true}, {"::ffff:169.254.169.254", false, true}, {"fd00:ec2::254", false, true}, {"169.254.170.2", false, true},
		{"64:ff9b::a9fe:a9fe", false, true}, {"2002:a9fe:a9fe::", false, true}, {"168.63.129.16", true, true}, {"100.100.100.200", false, true},
	} {
		a := plain(netip.MustParseAddr(c.address))
		if isPublic(a) != c.public || isMetadata(a) != c.metadata {
			t.Errorf("%s: public %t, metadata %t", c.address, isPublic(a), isMetadata(a))
		}
	}
}

func TestParsePolicy(t *testing.T) {
	for _, text := range []string{"any", "public", "10.0.0.0/8", "public, 10.0.0.0/8,fd00::/8", "127.0.0.1/32"} {
		if _, err := ParsePolicy(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"", "none", "10.0.0.0", "10.0.0.1/8", "10.0.0.0/33", "any,", "::ffff:10.0.0.0/104", strings.Repeat("any,", policyMax) + "any"} {
		if _, err := ParsePolicy(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if _, err := Transport(Rules{Policies: []string{"everything"}}); err == nil {
		t.Error("rules with a policy that cannot be read are taken")
	}
}

// TestProxy checks that a proxy is used only if the rules name one. The policy does not apply to the proxy's
// own address, but to an address that the request names literally.
func TestProxy(t *testing.T) {
	var asked atomic.Int64
	proxy, _ := site(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.IsAbs() {
			asked.Add(1)
		}
	})
	target, direct := site(t, func(http.ResponseWriter, *http.Request) {})
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	dns := newDNS(t)
	dns.answer.Store(&[4]byte{127, 0, 0, 1})
	named := "http://warehouse.example:" + port(t, target)
	g := guardOf(t, Rules{Policies: []string{Any}})
	g.resolver = dns.resolver()
	if err := get(t, g, named); err != nil || asked.Load() != 0 || direct.Load() != 1 {
		t.Errorf("without a setting: %v, %d calls of the proxy, %d of the target", err, asked.Load(), direct.Load())
	}
	for i, setting := range []string{proxy.URL, Environment} {
		g := guardOf(t, Rules{Policies: []string{Public}, Proxy: setting, Own: []Own{{"node", "node-1.example:80"}}})
		// Package http reads the variables only once.
		g.environment = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }
		if err := get(t, g, named); err != nil || asked.Load() != int64(i+1) {
			t.Errorf("by %s: %v, %d calls of the proxy", setting, err, asked.Load())
		}
		for url, code := range map[string]string{"http://169.254.169.254/": CodeMetadata, "http://10.0.0.1/": CodePolicy, "http://NODE-1.example/": CodeOwn} {
			if r, ok := Refused(get(t, g, url)); !ok || r.Code != code {
				t.Errorf("%s by %s: %v", url, setting, r)
			}
		}
	}
	if asked.Load() != 2 {
		t.Errorf("the proxy was asked %d times", asked.Load())
	}
}

// TestRedirectLeavesCredentials checks that a redirect sends no credentials to another host.
func TestRedirectLeavesCredentials(t *testing.T) {
	var got http.Header
	other, _ := site(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	first, _ := site(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	rt, err := Transport(Rules{Policies: []string{Any}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.CloseIdleConnections()
	client := http.Client{Transport: rt, CheckRedirect: func(r *http.Request, via []*http.Request) error { return Redirect(r, via, []string{"X-Key"}) }}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(first.URL, "://", "://user:secret@", 1)+"/?token=secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"X-Key", "Cookie"} {
		req.Header.Set(name, "secret")
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	for name, values := range got {
		if strings.Contains(strings.Join(values, ""), "secret") {
			t.Errorf("the other host got %s: %q", name, values)
		}
	}
	if got == nil {
		t.Error("the redirect was not followed")
	}
}

// dnsServer answers every question for an IPv4 address with one address.
type dnsServer struct {
	conn   net.PacketConn
	answer atomic.Pointer[[4]byte] // nil if the name does not exist
	asked  atomic.Int64
}

func newDNS(t *testing.T) *dnsServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &dnsServer{conn: conn}
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.serve()
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return d
}

func (d *dnsServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", d.conn.LocalAddr().String())
	}}
}

func (d *dnsServer) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := d.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		end := 12
		for end < n && buf[end] != 0 { // skip the labels of the name
			end += int(buf[end]) + 1
		}
		end++ // skip the label that ends the name
		if end+4 > n {
			continue
		}
		d.asked.Add(1)
		question := buf[12 : end+4]
		out := append([]byte{buf[0], buf[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
		a := d.answer.Load()
		switch {
		case a == nil:
			out[3] |= 3 // NXDOMAIN
		case binary.BigEndian.Uint16(buf[end:]) == 1: // A
			out[7] = 1
			out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, a[0], a[1], a[2], a[3])
		}
		_, _ = d.conn.WriteTo(out, from)
	}
}
