// Package broker holds the connections to brokers and the inputs of their sources. The node checks both, and
// skein-plus uses them.
package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"skein.dev/skein/internal/secret"
)

// Security says how connections to a broker use TLS.
type Security struct {
	// TLS is verify, encrypt or disable, as for the other connections; "" is verify.
	TLS string `json:"tls,omitempty"`
	// CA holds the certificates of authorities in PEM. "" means the authorities of the system.
	CA string `json:"ca,omitempty"`
	// Certificate and Key, both in PEM, identify this side to the broker. They are "" if none is shown.
	Certificate string       `json:"certificate,omitempty"`
	Key         *secret.Text `json:"key,omitempty"`
}

// Uses of TLS.
const (
	tlsVerify  = "verify"
	tlsEncrypt = "encrypt"
	tlsDisable = "disable"
)

func (s *Security) check() error {
	switch {
	case s.TLS != "" && s.TLS != tlsVerify && s.TLS != tlsEncrypt && s.TLS != tlsDisable:
		return fmt.Errorf("tls is %.40q; it must be %s, %s or %s", s.TLS, tlsVerify, tlsEncrypt, tlsDisable)
	case (s.Certificate == "") != (s.Key == nil):
		return errors.New("certificate and key belong together")
	case s.Certificate != "" && !strings.Contains(s.Certificate, "BEGIN CERTIFICATE"):
		return errors.New("certificate contains no certificate in PEM")
	case s.TLS == tlsDisable && (s.CA != "" || s.Certificate != ""):
		return errors.New("ca and certificate need TLS, but tls is disable: remove them, or remove tls")
	case s.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(s.CA)):
		return errors.New("ca contains no certificate in PEM")
	}
	return isSecret("key", s.Key)
}

// Config returns how a session with a broker uses TLS, or nil if it uses none. key is the value of Key. The
// caller sets the name of the server.
func (s *Security) Config(key string) (*tls.Config, error) {
	if s.TLS == tlsDisable {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: s.TLS == tlsEncrypt}
	if s.CA != "" {
		cfg.RootCAs = x509.NewCertPool()
		cfg.RootCAs.AppendCertsFromPEM([]byte(s.CA))
	}
	if s.Certificate == "" {
		return cfg, nil
	}
	pair, err := tls.X509KeyPair([]byte(s.Certificate), []byte(key))
	if err != nil {
		return nil, errors.New("certificate and key are not a pair in PEM") // the error could show a part of the key
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

// SignIn is how to sign in with a password.
type SignIn struct {
	User     string       `json:"user,omitempty"`
	Password *secret.Text `json:"password,omitempty"`
}

func (s *SignIn) check() error {
	switch {
	case s.User != "" && s.Password == nil:
		return errors.New("user and password belong together")
	case strings.ContainsAny(s.User, "\x00\r\n"):
		return errors.New("user must be one line")
	}
	return isSecret("password", s.Password)
}

// isAddress reports whether a text is HOST:PORT.
func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	return err == nil && host != "" && port != "" && !strings.ContainsAny(text, "/@?#, \t\r\n\x00") && len(text) <= 260
}

// isSecret returns an error if a text of a connection is a value and not the name of a secret.
func isSecret(key string, t *secret.Text) error {
	if t != nil && t.Secret == "" {
		return fmt.Errorf("%s must be {secret: NAME}: connections are shown, so they hold no value of a secret", key)
	}
	return nil
}

// Values of the key value of a trigger, which says what event.value is.
const (
	ValueJSON   = "json"
	ValueText   = "text"
	ValueBase64 = "base64"
)

// Server is one server with the usual ways to sign in.
type Server struct {
	Host string `json:"host"`
	Port int    `json:"port,omitempty"` // 0 means the usual one
	Security
	SignIn
}

// Address returns the address of the server. The usual ports are those without and with TLS.
func (s *Server) Address(plain, secured int) string {
	port := s.Port
	switch {
	case port == 0 && s.TLS == tlsDisable:
		port = plain
	case port == 0:
		port = secured
	}
	return net.JoinHostPort(s.Host, strconv.Itoa(port))
}

func (s *Server) check() error {
	switch {
	case s.Host == "" || strings.ContainsAny(s.Host, "/@?#, \t\r\n\x00") || len(s.Host) > 255:
		return fmt.Errorf("host: %.100q is neither the name nor the address of a machine", s.Host)
	case s.Port < 0 || s.Port > 65535:
		return fmt.Errorf("port: %d is not a port", s.Port)
	}
	return errors.Join(s.Security.check(), s.SignIn.check())
}

// Secrets returns the plain texts of a connection that may be secrets.
func (s *Server) Secrets() []*secret.Text { return []*secret.Text{s.Key, s.Password} }
