package connection

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"skein.dev/skein/internal/secret"
	"skein.dev/skein/sdk/shared/mask"
)

// Header is a header of a request.
type Header struct{ Name, Value string }

// Request returns the address and the headers of a request with a path. value returns the values of secrets.
func (h *HTTP) Request(path string, value func(name string) (string, error)) (address string, headers []Header, err error) {
	if !strings.HasPrefix(path, "/") {
		return "", nil, errors.New("the url of a request over a connection is a path that begins with /")
	}
	text := func(t secret.Text) (string, error) {
		if t.Secret == "" {
			return t.Plain, nil
		}
		is, err := value(t.Secret)
		if err == nil && strings.ContainsAny(is, "\r\n") {
			err = fmt.Errorf("the secret %s has more than one line, and a header has one", t.Secret)
		}
		return is, err
	}
	switch {
	case h.Token != nil:
		token, err := text(*h.Token)
		if err != nil {
			return "", nil, err
		}
		headers = append(headers, Header{"Authorization", "Bearer " + token})
	case h.User != "":
		password, err := text(*h.Password)
		if err != nil {
			return "", nil, err
		}
		headers = append(headers, Header{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(h.User+":"+password))})
	}
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		is, err := text(h.Headers[name])
		if err != nil {
			return "", nil, err
		}
		headers = append(headers, Header{name, is})
	}
	return h.URL + path, headers, nil
}

const (
	// testMax bounds a test of a connection.
	testMax = 10 * time.Second
	// heardMax bounds the bytes of an answer that a test reads.
	heardMax = 1 << 20
	// shownMax bounds the bytes of the answer that a test shows.
	shownMax = 300
)

// Test uses a connection once, and changes nothing at the other side. It returns a description of the other
// side. Its errors contain no value of a secret.
func (c *Config) Test(ctx context.Context, m *Means) (found string, err error) {
	ctx, cancel := context.WithTimeout(ctx, testMax)
	defer cancel()
	var values []string
	known := *m
	known.Secret = func(ctx context.Context, name string) (string, error) {
		is, err := m.Secret(ctx, name)
		if err == nil {
			values = append(values, is)
		}
		return is, err
	}
	defer func() {
		if p := recover(); p != nil { // for example a panic of a library that parses messages of the other side
			err = fmt.Errorf("the test panicked: %v", p)
		}
		hidden := mask.NewSet(values)
		found = shown(hidden, found)
		switch {
		case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			err = fmt.Errorf("there was no answer within %s", testMax)
		case err != nil && (len(values) > 0 || len(err.Error()) > shownMax):
			err = errors.New(shown(hidden, err.Error()))
		}
	}()
	for _, one := range c.set() {
		return one.is.use(ctx, &known)
	}
	return "", errors.New("the connection has no type that this node knows")
}

var noSecrets = mask.NewSet(nil)

// readable makes a text of another program readable for people, and masks secrets.
func readable(hidden *mask.Set, text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(hidden.String(text), ""))
}

// shown returns a short text for people. It masks secrets before it shortens the text, because a mask cannot
// find a part of a value.
func shown(hidden *mask.Set, text string) string {
	text = readable(hidden, text)
	if len(text) > shownMax {
		text = strings.ToValidUTF8(text[:shownMax], "") + "…"
	}
	return text
}

func (h *HTTP) use(ctx context.Context, m *Means) (string, error) {
	path := h.Test
	if path == "" {
		path = "/"
	}
	address, headers, err := h.Request(path, func(name string) (string, error) { return m.Secret(ctx, name) })
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", errors.New("the address cannot be used")
	}
	for _, one := range headers {
		req.Header.Set(one.Name, one.Value)
	}
	transport, err := m.Transport()
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		var named *url.Error
		if errors.As(err, &named) {
			err = named.Err
		}
		return "", err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, heardMax))
	_ = resp.Body.Close()
	said := fmt.Sprintf("GET %s: the server answered %d %s", path, resp.StatusCode, http.StatusText(resp.StatusCode))
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		return "", errors.New(said + ": the server refuses the credentials, or needs some")
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed, code < 400:
		return said, nil
	}
	return "", errors.New(said)
}

// plain are settings that no variable and no file of the node has changed. The parser reads a service file
// whenever PGSERVICE is set, so it is called once, before other goroutines can see that the variable is
// unset.
var plain, errPlain = plainSettings()

func plainSettings() (*pgx.ConnConfig, error) {
	const name = "PGSERVICE"
	if is, ok := os.LookupEnv(name); ok {
		_ = os.Unsetenv(name)
		defer func() { _ = os.Setenv(name, is) }()
	}
	return pgx.ParseConfig("host=localhost port=5432 user=skein database=skein password='-' sslmode=disable passfile='' sslcert='' sslkey='' " +
		"sslrootcert='' connect_timeout=0 target_session_attrs=any sslnegotiation=postgres require_auth='' channel_binding=prefer " +
		"sslcertmode=allow min_protocol_version=3.0 max_protocol_version=3.0")
}

// settings returns the settings of a session. No environment variable (such as PGHOST) and no file of the
// node (such as ~/.pgpass) has an effect.
func (p *Postgres) settings(password string, dial Dial) (*pgx.ConnConfig, error) {
	port := p.Port
	if port == 0 {
		port = portDefault
	}
	database := p.Database
	if database == "" {
		database = p.User
	}
	if errPlain != nil {
		return nil, errPlain
	}
	cfg := plain.Copy()
	cfg.Host, cfg.Port, cfg.User, cfg.Database = p.Host, uint16(port), p.User, database
	cfg.Password, cfg.Fallbacks, cfg.RuntimeParams = password, nil, map[string]string{"application_name": "skein"}
	cfg.DialFunc = pgconn.DialFunc(dial)
	cfg.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil } // the dialler resolves and checks
	cfg.TLSConfig = tlsOf(p.Host, p.TLS, p.CA)
	return cfg, nil
}

// tlsOf returns how a session uses TLS, or nil if it uses none.
func tlsOf(host, mode, ca string) *tls.Config {
	if mode == TLSDisable {
		return nil
	}
	cfg := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, InsecureSkipVerify: mode == TLSEncrypt}
	if ca != "" {
		cfg.RootCAs = x509.NewCertPool()
		cfg.RootCAs.AppendCertsFromPEM([]byte(ca))
	}
	return cfg
}

func (p *Postgres) use(ctx context.Context, m *Means) (string, error) {
	password, err := m.text(ctx, p.Password)
	if err != nil {
		return "", err
	}
	conn, err := p.Open(ctx, password, m.Dial, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	var version, user, database string
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version'), current_user::text, current_database()::text").Scan(&version, &user, &database); err != nil {
		return "", err
	}
	return fmt.Sprintf("PostgreSQL %s, user %s, database %s", version, user, database), nil
}
