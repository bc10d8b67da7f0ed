// Package connection says how tasks reach other systems: the types of connections, what belongs to each, and
// how to use them. A connection holds names of secrets, and no value of one. Every address is called by the
// rules of egress, because people choose it.
package connection

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/secret"
)

// Config is the content of a connection. Exactly one of its types is set.
type Config struct {
	HTTP       *HTTP       `json:"http,omitempty"`
	Postgres   *Postgres   `json:"postgres,omitempty"`
	MySQL      *MySQL      `json:"mysql,omitempty"`
	SQLite     *SQLite     `json:"sqlite,omitempty"`
	ClickHouse *ClickHouse `json:"clickhouse,omitempty"`
	SSH        *SSH        `json:"ssh,omitempty"`

	// Connections to brokers, which skein-plus uses.
	Kafka *broker.Kafka `json:"kafka,omitempty"`
	NATS  *broker.NATS  `json:"nats,omitempty"`
	Redis *broker.Redis `json:"redis,omitempty"`
	MQTT  *broker.MQTT  `json:"mqtt,omitempty"`
	AMQP  *broker.AMQP  `json:"amqp,omitempty"`
	SQS   *broker.SQS   `json:"sqs,omitempty"`
}

// HTTP is a server that requests are sent to.
type HTTP struct {
	// URL begins the address of every request.
	URL string `json:"url"`
	// User and Password, or Token, are sent in the header Authorization.
	User     string       `json:"user,omitempty"`
	Password *secret.Text `json:"password,omitempty"`
	Token    *secret.Text `json:"token,omitempty"`
	// Headers are sent with every request.
	Headers map[string]secret.Text `json:"headers,omitempty"`
	// Test is the path that a test of the connection reads. "" means /.
	Test string `json:"test,omitempty"`
}

// Postgres is a database of PostgreSQL.
type Postgres struct {
	Host     string       `json:"host"`
	Port     int          `json:"port,omitempty"` // 0 means 5432
	Database string       `json:"database,omitempty"`
	User     string       `json:"user"`
	Password *secret.Text `json:"password,omitempty"`
	// TLS is one of the TLS constants; "" is TLSVerify.
	TLS string `json:"tls,omitempty"`
	// CA holds the certificates of authorities in PEM. "" means the authorities of the system.
	CA string `json:"ca,omitempty"`
}

// MySQL is a database of MySQL or MariaDB. Port 0 is 3306.
type MySQL Postgres

// SQLite is a file of SQLite on the machine that runs the task.
type SQLite struct {
	// Path is absolute.
	Path string `json:"path"`
	// Create makes the file if there is none.
	Create bool `json:"create,omitempty"`
}

// ClickHouse is a server of ClickHouse, over its HTTP interface.
type ClickHouse struct {
	// URL is the address of the server, without a path.
	URL      string       `json:"url"`
	Database string       `json:"database,omitempty"` // "" means that of the user
	User     string       `json:"user,omitempty"`     // "" means default
	Password *secret.Text `json:"password,omitempty"`
	// CA holds the certificates of authorities in PEM. "" means the authorities of the system.
	CA string `json:"ca,omitempty"`
}

// Uses of TLS by a connection to PostgreSQL or MySQL.
const (
	TLSVerify  = "verify"  // TLS with a certificate for the host
	TLSEncrypt = "encrypt" // TLS with any certificate
	TLSDisable = "disable"
)

// ConfigMax bounds the content of a connection, in bytes.
const ConfigMax = 32 << 10

const (
	headersMax  = 50
	portDefault = 5432
)

// NamePattern matches the names of connections.
const NamePattern = `^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`

var nameOK = regexp.MustCompile(NamePattern)

// IsName reports whether a text can be the name of a connection.
func IsName(name string) bool { return nameOK.MatchString(name) }

// Types are the names of the types.
var Types = []string{"http", "postgres", "mysql", "sqlite", "clickhouse", "ssh", "kafka", "nats", "redis", "mqtt", "amqp", "sqs"}

// Parse reads and checks a connection. Its errors name the mistake and the remedy.
func Parse(data []byte) (Config, error) {
	var c Config
	if len(data) > ConfigMax {
		return c, fmt.Errorf("the connection has %d bytes, the limit is %d: shorten it", len(data), ConfigMax)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("the connection cannot be read: %s; the types are %s", strings.TrimPrefix(err.Error(), "json: "), typesText())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return c, errors.New("there is text after the end of the connection")
	}
	switch all := c.set(); len(all) {
	case 0:
		return c, fmt.Errorf("a connection has a type: %s", typesText())
	case 1:
		return c, all[0].is.check()
	}
	return c, errors.New("a connection has one type: make a connection for each")
}

// typesText lists the types in a sentence.
func typesText() string {
	last := len(Types) - 1
	return strings.Join(Types[:last], ", ") + " or " + Types[last]
}

// checked is the content of a connection of one type.
type checked interface {
	check() error
	// use uses the connection once, see Config.Test.
	use(ctx context.Context, m *Means) (found string, err error)
}

// named is a type that is set.
type named struct {
	name string
	is   checked
}

// set returns the types that are set.
func (c *Config) set() (all []named) {
	add := func(set bool, name string, is checked) {
		if set {
			all = append(all, named{name, is})
		}
	}
	add(c.HTTP != nil, "http", c.HTTP)
	add(c.Postgres != nil, "postgres", c.Postgres)
	add(c.MySQL != nil, "mysql", c.MySQL)
	add(c.SQLite != nil, "sqlite", c.SQLite)
	add(c.ClickHouse != nil, "clickhouse", c.ClickHouse)
	add(c.SSH != nil, "ssh", c.SSH)
	add(c.Kafka != nil, "kafka", &brokers{c, c.Kafka})
	add(c.NATS != nil, "nats", &brokers{c, c.NATS})
	add(c.Redis != nil, "redis", &brokers{c, c.Redis})
	add(c.MQTT != nil, "mqtt", &brokers{c, c.MQTT})
	add(c.AMQP != nil, "amqp", &brokers{c, c.AMQP})
	add(c.SQS != nil, "sqs", &brokers{c, c.SQS})
	return all
}

// Type returns the name of the type that is set.
func (c *Config) Type() string {
	for _, one := range c.set() {
		return one.name
	}
	return ""
}

// isSecret returns an error if a text of a connection is a value and not the name of a secret.
func isSecret(key string, t *secret.Text) error {
	if t != nil && t.Secret == "" {
		return fmt.Errorf("%s must be {secret: NAME}: connections are shown, so they hold no value of a secret", key)
	}
	return nil
}

// headerName matches the names of headers.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")

// ownHeaders are the headers that the sending program makes. Host decides which server answers.
var ownHeaders = []string{"Content-Length", "Transfer-Encoding", "Connection", "Trailer", "Upgrade", "Host"}

func (h *HTTP) check() error {
	u, err := url.Parse(h.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("url: %.200q is not an http or https address", h.URL)
	case u.User != nil:
		return errors.New("url has a user or a password: write user, and password as {secret: NAME}")
	case u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(h.URL, "?#"):
		return errors.New("url has a query or a fragment: the path of each request follows it")
	case h.Token != nil && (h.User != "" || h.Password != nil):
		return errors.New("it has token, and also user or password: write only one way to sign in")
	case (h.User == "") != (h.Password == nil):
		return errors.New("user and password belong together")
	case strings.ContainsAny(h.User, ":\r\n"):
		return errors.New("user must not contain a colon or a line end")
	case h.Test != "" && !strings.HasPrefix(h.Test, "/"):
		return fmt.Errorf("test: %.200q is not a path: begin it with /", h.Test)
	case len(h.Headers) > headersMax:
		return fmt.Errorf("it has %d headers; it takes up to %d", len(h.Headers), headersMax)
	}
	h.URL = strings.TrimSuffix(u.String(), "/")
	for _, err := range []error{isSecret("password", h.Password), isSecret("token", h.Token)} {
		if err != nil {
			return err
		}
	}
	return h.checkHeaders()
}

func (h *HTTP) checkHeaders() error {
	seen := map[string]bool{}
	for name, value := range h.Headers {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !headerName.MatchString(name):
			return fmt.Errorf("headers: %.100q is not a header name", name)
		case seen[canonical]:
			return fmt.Errorf("headers: %s is given twice", canonical)
		case strings.ContainsAny(value.Plain, "\r\n"):
			return fmt.Errorf("headers: the value of %s has more than one line", name)
		case canonical == "Authorization" && (h.Token != nil || h.User != ""):
			return errors.New("headers: Authorization is made of token, or of user and password: remove one of them")
		case canonical == "Authorization" || canonical == "Cookie" || canonical == "Proxy-Authorization":
			if value.Secret == "" {
				return fmt.Errorf("headers: the value of %s must be {secret: NAME}", name)
			}
		}
		for _, own := range ownHeaders {
			if canonical == own {
				return fmt.Errorf("headers: %s is set by the program that sends the request: remove it", name)
			}
		}
		seen[canonical] = true
	}
	return nil
}

func (p *Postgres) check() error {
	switch {
	case p.Host == "" || strings.ContainsAny(p.Host, "/@?#, \t\r\n\x00") || len(p.Host) > 255:
		return fmt.Errorf("host: %.100q is neither the name nor the address of a machine", p.Host)
	case p.Port < 0 || p.Port > 65535:
		return fmt.Errorf("port: %d is not a port", p.Port)
	case p.User == "":
		return errors.New("user is missing: the database needs the name of a role to sign in with")
	case strings.ContainsAny(p.User+p.Database, "\x00"):
		return errors.New("user and database must not contain NUL")
	case p.TLS != "" && p.TLS != TLSVerify && p.TLS != TLSEncrypt && p.TLS != TLSDisable:
		return fmt.Errorf("tls is %.40q; it must be %s, %s or %s", p.TLS, TLSVerify, TLSEncrypt, TLSDisable)
	}
	return errors.Join(checkCA(p.CA), isSecret("password", p.Password))
}

func checkCA(pem string) error {
	if pem != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(pem)) {
		return errors.New("ca contains no certificate in PEM")
	}
	return nil
}

func (m *MySQL) check() error { return (*Postgres)(m).check() }

func (s *SQLite) check() error {
	switch {
	case !path.IsAbs(s.Path) || path.Clean(s.Path) != s.Path:
		return fmt.Errorf("path: %.200q is not an absolute path without . and ..", s.Path)
	case strings.ContainsRune(s.Path, 0) || len(s.Path) > 4096:
		return errors.New("path is not the path of a file")
	}
	return nil
}

func (c *ClickHouse) check() error {
	h := HTTP{URL: c.URL}
	if err := h.check(); err != nil {
		return err
	}
	c.URL = h.URL
	switch u, err := url.Parse(c.URL); {
	case err != nil || u.Path != "":
		return errors.New("url has a path: the HTTP interface of ClickHouse has none")
	case c.User == "" && c.Password != nil:
		return errors.New("user and password belong together")
	case strings.ContainsAny(c.User+c.Database, "\r\n\x00"):
		return errors.New("user and database must be one line")
	}
	return errors.Join(checkCA(c.CA), isSecret("password", c.Password))
}

// Means holds what the use of a connection needs from its node.
type Means struct {
	// Secret returns the value of a secret of the connection's namespace.
	Secret func(ctx context.Context, name string) (string, error)
	// Transport and Dial reach only the addresses that the rules of egress allow.
	Transport func() (http.RoundTripper, error)
	Dial      Dial
	// Plus lets skein-plus try a resolved connection to a broker.
	Plus func(ctx context.Context, kind string, resolved json.RawMessage) (found string, err error)
	// Protected are paths of this machine that no connection may reach.
	Protected []string
}

func (m *Means) text(ctx context.Context, t *secret.Text) (string, error) {
	switch {
	case t == nil:
		return "", nil
	case t.Secret == "":
		return t.Plain, nil
	}
	return m.Secret(ctx, t.Secret)
}
