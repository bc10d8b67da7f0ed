package server

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	api "skein.dev/skein/sdk/api/v1"
)

// guard refuses requests that come from web pages of other sites. Such a page can make a browser send
// requests here, by a host name (DNS rebinding) or across origins. But it cannot choose the headers that
// guard checks.
type guard struct {
	host string // the host of the listen address; "" means only loopback
	any  bool   // any host name is accepted, because callers must send a token, which a foreign page does not have
}

func newGuard(listen string) guard {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		host = listen
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "" // an address of all interfaces is not the name of a host
	}
	return guard{host: strings.ToLower(host)}
}

// Guarded refuses requests of foreign web pages in front of next, as the server does for its own routes.
// listen is the address of the server, and anyHost has the meaning of Config.AnyHost.
func Guarded(listen string, anyHost bool, next http.Handler) http.Handler {
	g := newGuard(listen)
	g.any = anyHost
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := g.check(r); f != nil {
			f.write(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// check accepts a signed call for any host. The sender of a signed call may use a tunnel or a proxy with
// another name, and a web page could not sign the call. The origin is checked for signed calls, too, because
// web pages have no use for webhooks.
func (g guard) check(r *http.Request) *failure {
	if !g.any && !g.ours(r.Host) && !strings.HasPrefix(r.URL.Path, hooksPath) {
		return fail(http.StatusMisdirectedRequest, api.ProblemForeignHost, "this server does not answer for the host %q", r.Host)
	}
	if site := r.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && !navigates(r) {
		return fail(http.StatusForbidden, api.ProblemForeignOrigin, "requests from pages of another site are refused")
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if u, err := url.Parse(origin); err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return fail(http.StatusForbidden, api.ProblemForeignOrigin, "requests from the origin %q are refused", origin)
	}
	return nil
}

// ours reports whether a Host header contains a name of this server.
func (g guard) ours(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || host != "" && host == g.host {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
