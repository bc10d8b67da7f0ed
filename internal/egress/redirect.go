package egress

import (
	"fmt"
	"net/http"
	"net/url"
)

// redirectsMax bounds the redirects of one call.
const redirectsMax = 5

// Redirect is for [http.Client.CheckRedirect]. It follows at most 5 redirects, and none from TLS to plain
// HTTP. It refuses a redirect that would send a body to another host. Another host gets no credentials, none
// of the named headers, and no Referer, because a Referer holds the query of the first address.
func Redirect(req *http.Request, via []*http.Request, named []string) error {
	first := via[0].URL
	switch {
	case len(via) > redirectsMax:
		return fmt.Errorf("more than %d redirects", redirectsMax)
	case first.Scheme == "https" && req.URL.Scheme != "https":
		return fmt.Errorf("the server redirects the request to %s, without TLS", PlainURL(req.URL))
	case req.URL.Scheme == first.Scheme && req.URL.Host == first.Host:
		return nil
	case req.Body != nil && req.Body != http.NoBody:
		return fmt.Errorf("the server redirects the request to another host, %s, which would get the body of the request", PlainURL(req.URL))
	}
	for _, name := range named {
		req.Header.Del(name)
	}
	req.Header.Del("Authorization")
	req.Header.Del("Cookie")
	req.Header.Del("Referer")
	req.Host = ""
	return nil
}

// PlainURL returns a URL without its user and query, because those parts may be secret.
func PlainURL(u *url.URL) string {
	plain := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.RawQuery != "" {
		return plain.String() + "?…"
	}
	return plain.String()
}
