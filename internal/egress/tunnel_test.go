package egress

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestTunnel: connections go through the proxy of the rules, which resolves the names. Numeric addresses are
// checked, and a proxy that refuses is named.
func TestTunnel(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "there") }))
	defer srv.Close()
	asked := ""
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.Host + " " + r.Header.Get("Proxy-Authorization")
		if r.Host != "git.invalid:443" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		there, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer there.Close()
		client, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer client.Close()
		_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
		var both sync.WaitGroup
		both.Go(func() { _, _ = io.Copy(there, client); _ = there.Close() })
		both.Go(func() { _, _ = io.Copy(client, there); _ = client.Close() })
		both.Wait()
	}))
	defer proxy.Close()
	dial, err := Tunnel(Rules{Proxy: strings.Replace(proxy.URL, "http://", "http://u:p@", 1)})
	if err != nil {
		t.Fatal(err)
	}
	client := srv.Client()
	transport := client.Transport.(*http.Transport)
	transport.DialContext, transport.TLSClientConfig.ServerName, transport.DisableKeepAlives = dial, "example.com", true
	answer, err := client.Get("https://git.invalid/")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || string(text) != "there" || asked != "CONNECT git.invalid:443 Basic dTpw" {
		t.Errorf("%q, %v, the proxy was asked %q", text, err, asked)
	}
	if _, err := dial(context.Background(), "tcp", "other.invalid:443"); err == nil || asked == "" {
		t.Errorf("a proxy that refuses: %v, it was asked %q", err, asked)
	}
	asked = ""
	if _, err := dial(context.Background(), "tcp", "127.0.0.1:443"); err == nil || asked != "" {
		t.Errorf("a private address: %v, the proxy was asked %q", err, asked)
	} else if _, refused := Refused(err); !refused {
		t.Error(err)
	}
}

// TestTunnelLargeAnswer: an answer of a proxy with a header of 1 MiB is refused.
func TestTunnelLargeAnswer(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Large", strings.Repeat("x", 1<<20))
	}))
	defer proxy.Close()
	dial, err := Tunnel(Rules{Proxy: proxy.URL})
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := dial(t.Context(), "tcp", "git.invalid:443"); err == nil {
		_ = conn.Close()
		t.Error("the tunnel was made")
	}
}
