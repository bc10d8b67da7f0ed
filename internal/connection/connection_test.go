package connection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	secretOf := func(name string) string { return fmt.Sprintf(`{"secret":%q}`, name) }
	for text, says := range map[string]string{
		`{"http":{"url":"https://crm.example.com/api/"}}`: "",
		`{"http":{"url":"http://127.0.0.1:80","user":"u","password":` + secretOf("P") + `,"headers":{"X-Team":"a","Cookie":` + secretOf("C") + `},"test":"/health?x=1"}}`: "",
		`{"postgres":{"host":"db","user":"etl","password":` + secretOf("P") + `,"port":5433,"database":"dw","tls":"encrypt"}}`:                                            "",
		`{"postgres":{"host":"::1","user":"e'\\tl"}}`: "",
		`{}`:            "a connection has a type",
		`{"oracle":{}}`: "unknown field",
		`{"mysql":{"host":"db","user":"etl","password":` + secretOf("P") + `,"tls":"disable"}}`: "",
		`{"mysql":{}}`: "host",
		`{"mysql":{"host":"db","user":"etl","password":"plain"}}`:                                                      "{secret: NAME}",
		`{"sqlite":{"path":"/var/lib/a.db","create":true}}`:                                                            "",
		`{"sqlite":{"path":"a.db"}}`:                                                                                   "absolute path",
		`{"sqlite":{"path":"/var/../etc/a.db"}}`:                                                                       "absolute path",
		`{"sqlite":{}}`:                                                                                                "absolute path",
		`{"clickhouse":{"url":"https://ch:8443","user":"u","password":` + secretOf("P") + `}}`:                         "",
		`{"clickhouse":{"url":"https://ch:8443/x"}}`:                                                                   "has a path",
		`{"clickhouse":{"url":"ch:8443"}}`:                                                                             "not an http",
		`{"clickhouse":{"url":"http://ch","password":` + secretOf("P") + `}}`:                                          "belong together",
		`{"http":{"url":"x"}} {}`:                                                                                      "after the end of the connection",
		`{"http":{"url":"ftp://x"}}`:                                                                                   "not an http or https address",
		`{"http":{"url":"https://a:b@x"}}`:                                                                             "user or a password",
		`{"http":{"url":"https://x?a=1"}}`:                                                                             "query",
		`{"http":{"url":"https://x#a"}}`:                                                                               "fragment",
		`{"http":{"url":"https://x"},"postgres":{"host":"a","user":"b"}}`:                                              "one type",
		`{"http":{"url":"https://x","token":"plain"}}`:                                                                 "{secret: NAME}",
		`{"http":{"url":"https://x","user":"u"}}`:                                                                      "belong together",
		`{"http":{"url":"https://x","user":"u:v","password":` + secretOf("P") + `}}`:                                   "colon",
		`{"http":{"url":"https://x","user":"u","password":"plain"}}`:                                                   "{secret: NAME}",
		`{"http":{"url":"https://x","user":"u","password":{"secret":"a-b"}}}`:                                          "name of a secret",
		`{"http":{"url":"https://x","user":"u","password":` + secretOf("P") + `,"token":` + secretOf("T") + `}}`:       "only one way to sign in",
		`{"http":{"url":"https://x","headers":{"a b":"c"}}}`:                                                           "not a header name",
		`{"http":{"url":"https://x","headers":{"X":"a\nb"}}}`:                                                          "more than one line",
		`{"http":{"url":"https://x","headers":{"X":"a","x":"b"}}}`:                                                     "twice",
		`{"http":{"url":"https://x","headers":{"Host":"a"}}}`:                                                          "is set by the program",
		`{"http":{"url":"https://x","headers":{"authorization":"plain"}}}`:                                             "{secret: NAME}",
		`{"http":{"url":"https://x","token":` + secretOf("T") + `,"headers":{"authorization":` + secretOf("P") + `}}}`: "remove one of them",
		`{"http":{"url":"https://x","test":"health"}}`:                                                                 "begin it with /",
		`{"postgres":{"host":"","user":"a"}}`:                                                                          "host",
		`{"postgres":{"host":"/run/postgresql","user":"a"}}`:                                                           "host",
		`{"postgres":{"host":"a,b","user":"a"}}`:                                                                       "host",
		`{"postgres":{"host":"a"}}`:                                                                                    "user is missing",
		`{"postgres":{"host":"a","user":"b","port":70000}}`:                                                            "not a port",
		`{"postgres":{"host":"a","user":"b","tls":"prefer"}}`:                                                          "it must be verify",
		`{"postgres":{"host":"a","user":"b","ca":"x"}}`:                                                                "no certificate",
		`{"postgres":{"host":"a","user":"b","password":"plain"}}`:                                                      "{secret: NAME}",
		`{"http":{"url":"https://` + strings.Repeat("x", ConfigMax) + `"}}`:                                            "the limit is",
	} {
		c, err := Parse([]byte(text))
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%.200s: %v; want %q", text, err, says)
		}
		if err == nil { // the written form is read again
			again, failed := json.Marshal(&c)
			if failed == nil {
				_, failed = Parse(again)
			}
			if failed != nil || c.Type() == "" {
				t.Errorf("%s: %v", again, failed)
			}
		}
	}
}

// values are secrets by name.
type values map[string]string

func (v values) of(name string) (string, error) {
	if is, ok := v[name]; ok {
		return is, nil
	}
	return "", errors.New("no such secret shop/" + name)
}

func parsed(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

func TestRequest(t *testing.T) {
	known := values{"T": "token-value", "LINES": "one\ntwo"}
	c := parsed(t, `{"http":{"url":"https://crm.example.com/api/","token":{"secret":"T"},"headers":{"X-Team":"a","X-Key":{"secret":"T"}}}}`)
	address, headers, err := c.HTTP.Request("/v1?x=1", known.of)
	if err != nil || address != "https://crm.example.com/api/v1?x=1" || fmt.Sprint(headers) != "[{Authorization Bearer token-value} {X-Key token-value} {X-Team a}]" {
		t.Errorf("%s, %v, %v", address, headers, err)
	}
	basic := parsed(t, `{"http":{"url":"https://x","user":"u","password":{"secret":"T"}}}`)
	if address, headers, err := basic.HTTP.Request("//evil.example/@a", known.of); err != nil || address != "https://x//evil.example/@a" || headers[0].Value != "Basic dTp0b2tlbi12YWx1ZQ==" {
		t.Errorf("%s, %v, %v", address, headers, err)
	}
	for _, path := range []string{"", "v1", "@evil.example/", ".evil.example/", "https://evil.example/"} {
		if address, _, err := c.HTTP.Request(path, known.of); err == nil {
			t.Errorf("%q leads to %s", path, address)
		}
	}
	for _, text := range []string{`{"http":{"url":"https://x","token":{"secret":"NONE"}}}`, `{"http":{"url":"https://x","token":{"secret":"LINES"}}}`} {
		if _, _, err := parsed(t, text).HTTP.Request("/", known.of); err == nil || strings.Contains(err.Error(), "two") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// means returns Means that reach every address.
func means(known values) *Means {
	return &Means{Secret: func(_ context.Context, name string) (string, error) { return known.of(name) },
		Transport: func() (http.RoundTripper, error) { return http.DefaultTransport, nil }, Dial: new(net.Dialer).DialContext}
}

func TestHTTPTest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good", "/none":
			if r.Header.Get("Authorization") != "Bearer token-value" {
				w.WriteHeader(http.StatusUnauthorized)
			} else if r.URL.Path == "/none" {
				w.WriteHeader(http.StatusNotFound)
			}
		case "/elsewhere":
			http.Redirect(w, r, "/bad", http.StatusFound)
		case "/endless":
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	for path, want := range map[string]string{
		"/good": "the server answered 200 OK", "/none": "the server answered 404 Not Found", "/elsewhere": "302 Found", "/endless": "200 OK", "/bad": "!500 Internal Server Error",
	} {
		c := parsed(t, fmt.Sprintf(`{"http":{"url":%q,"token":{"secret":"T"},"test":%q}}`, server.URL, path))
		found, err := c.Test(t.Context(), means(values{"T": "token-value"}))
		if said := found + "!" + fmt.Sprint(err); !strings.Contains(said, strings.TrimPrefix(want, "!")) || (err != nil) != strings.HasPrefix(want, "!") {
			t.Errorf("%s: %q, %v", path, found, err)
		}
	}
	c := parsed(t, fmt.Sprintf(`{"http":{"url":%q,"token":{"secret":"T"},"test":"/good"}}`, server.URL))
	if _, err := c.Test(t.Context(), means(values{"T": "another-token"})); err == nil || !strings.Contains(err.Error(), "refuses the credentials") {
		t.Error(err)
	}
	if _, err := c.Test(t.Context(), means(values{})); err == nil || !strings.Contains(err.Error(), "no such secret shop/T") {
		t.Error(err)
	}
	server.Close()
	if _, err := c.Test(t.Context(), means(values{"T": "token-value"})); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}

// TestHostilePostgres checks servers that are no database, send text without end, or quote the password.
func TestHostilePostgres(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"closes": func(net.Conn) {},
		"http":   func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n") },
		"endless": func(c net.Conn) {
			for {
				if _, err := c.Write([]byte("N\x00\x00\x00\x08aaaa")); err != nil {
					return
				}
			}
		},
		"huge": func(c net.Conn) { _, _ = c.Write([]byte("E\x7f\xff\xff\xffS")) },
		"quotes": func(c net.Conn) {
			buf := make([]byte, 1000)
			_, _ = c.Read(buf)
			body := "SFATAL\x00C28P01\x00Mwrong password-value\x00\x00"
			_, _ = c.Write(append([]byte{'E', 0, 0, 0, byte(len(body) + 4)}, body...))
		},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				serve(conn)
				_ = conn.Close()
			}
		}()
		c := parsed(t, fmt.Sprintf(`{"postgres":{"host":"127.0.0.1","port":%d,"user":"etl","password":{"secret":"P"},"tls":"disable"}}`, l.Addr().(*net.TCPAddr).Port))
		_, err = c.Test(t.Context(), means(values{"P": "password-value"}))
		if err == nil || strings.Contains(err.Error(), "password-value") || len(err.Error()) > 1000 {
			t.Errorf("%s: %v", name, err)
		}
		_ = l.Close()
	}
}

// TestParseResolved: a process that uses a connection gets the values of its secrets, and no other secrets.
func TestParseResolved(t *testing.T) {
	known := values{"P": "the-password"}
	for _, text := range []string{
		`{"postgres":{"host":"db","port":5433,"user":"u","password":{"secret":"P"},"tls":"encrypt"}}`,
		`{"mysql":{"host":"db","user":"u","password":{"secret":"P"}}}`,
		`{"clickhouse":{"url":"http://ch","user":"u","password":{"secret":"P"}}}`,
		`{"http":{"url":"http://x","headers":{"secret":{"secret":"P"},"X":"plain"}}}`,
	} {
		c := parsed(t, text)
		raw, err := c.Resolved(known.of)
		if err != nil || strings.Contains(string(raw), `{"secret"`) || !strings.Contains(string(raw), `"type":"`+c.Type()+`"`) {
			t.Errorf("%s, %v", raw, err)
		}
		is, err := ParseResolved(raw)
		if err != nil || is.Type() != c.Type() || !slices.Contains(is.Secrets(), known["P"]) {
			t.Errorf("%s: %+v, %v", raw, is, err)
		}
	}
	if _, err := parsed(t, `{"mysql":{"host":"db","user":"u","password":{"secret":"NONE"}}}`).Resolved(known.of); err == nil {
		t.Error("a secret that is unknown")
	}
	for _, text := range []string{``, `{}`, `{"type":"oracle","password":"the-password"}`, `{"type":"mysql","host":["the-password"]}`, `{"type":5}`} {
		if _, err := ParseResolved([]byte(text)); err == nil || strings.Contains(err.Error(), "the-password") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
