// Package broker holds the connections to brokers and the inputs of their sources. The node checks both, and
// skein-plus uses them.
package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"skein.dev/skein/internal/secret"
)

// Kafka is a cluster of Apache Kafka, or of a server that speaks its protocol.
type Kafka struct {
	// Brokers are addresses as HOST:PORT. One that answers is enough: it returns the addresses of all brokers.
	Brokers []string `json:"brokers"`
	// TLS is verify, encrypt or disable, as for the other connections; "" is verify.
	TLS string `json:"tls,omitempty"`
	// CA holds the certificates of authorities in PEM; "": the authorities of the system.
	CA string `json:"ca,omitempty"`
	// Certificate and Key, both in PEM, identify this side to the broker; "": none is shown.
	Certificate string       `json:"certificate,omitempty"`
	Key         *secret.Text `json:"key,omitempty"`
	SASL        *KafkaSASL   `json:"sasl,omitempty"`
}

// KafkaSASL describes how to sign in.
type KafkaSASL struct {
	Mechanism string       `json:"mechanism"` // one of KafkaMechanisms
	User      string       `json:"user"`
	Password  *secret.Text `json:"password"`
}

// KafkaMechanisms are the known mechanisms of SASL.
var KafkaMechanisms = []string{"plain", "scram-sha-256", "scram-sha-512"}

const brokersMax = 50

// Uses of TLS.
const (
	tlsVerify  = "verify"
	tlsEncrypt = "encrypt"
	tlsDisable = "disable"
)

// Check returns an error that names a fault of the connection, and the remedy.
func (k *Kafka) Check() error {
	switch {
	case len(k.Brokers) == 0:
		return errors.New("brokers is missing: write a list such as [kafka-1:9092]")
	case len(k.Brokers) > brokersMax:
		return fmt.Errorf("it has %d brokers; it takes up to %d, and one that answers tells the others", len(k.Brokers), brokersMax)
	case k.TLS != "" && k.TLS != tlsVerify && k.TLS != tlsEncrypt && k.TLS != tlsDisable:
		return fmt.Errorf("tls: %.40q is none of %s, %s, %s", k.TLS, tlsVerify, tlsEncrypt, tlsDisable)
	case (k.Certificate == "") != (k.Key == nil):
		return errors.New("certificate and key belong together")
	case k.Certificate != "" && !strings.Contains(k.Certificate, "BEGIN CERTIFICATE"):
		return errors.New("certificate contains no certificate in PEM")
	case k.TLS == tlsDisable && (k.CA != "" || k.Certificate != ""):
		return errors.New("it has ca or certificate, and tls: disable: they belong to TLS")
	}
	for _, b := range k.Brokers {
		if host, port, err := net.SplitHostPort(b); err != nil || host == "" || port == "" || strings.ContainsAny(b, "/@?#, \t\r\n\x00") || len(b) > 260 {
			return fmt.Errorf("brokers: %.100q is no address such as kafka-1:9092", b)
		}
	}
	return errors.Join(checkCA(k.CA), isSecret("key", k.Key), k.SASL.check())
}

func (s *KafkaSASL) check() error {
	if s == nil {
		return nil
	}
	known := false
	for _, m := range KafkaMechanisms {
		known = known || s.Mechanism == m
	}
	switch {
	case !known:
		return fmt.Errorf("sasl.mechanism: %.40q is none of %s", s.Mechanism, strings.Join(KafkaMechanisms, ", "))
	case s.User == "" || s.Password == nil || strings.ContainsAny(s.User, "\x00\r\n"):
		return errors.New("sasl needs user, and password as {secret: NAME}")
	}
	return isSecret("sasl.password", s.Password)
}

// TLSConfig returns how a session with a broker uses TLS; nil: not at all. key is the value of Key. The
// caller sets the name of the server.
func (k *Kafka) TLSConfig(key string) (*tls.Config, error) {
	cfg := tlsOf(k.TLS, k.CA)
	if cfg == nil || k.Certificate == "" {
		return cfg, nil
	}
	pair, err := tls.X509KeyPair([]byte(k.Certificate), []byte(key))
	if err != nil {
		return nil, errors.New("certificate and key are no pair in PEM") // the error could show a part of the key
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

// tlsOf returns how a session uses TLS; nil: not at all.
func tlsOf(mode, ca string) *tls.Config {
	if mode == tlsDisable {
		return nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: mode == tlsEncrypt}
	if ca != "" {
		cfg.RootCAs = x509.NewCertPool()
		cfg.RootCAs.AppendCertsFromPEM([]byte(ca))
	}
	return cfg
}

func checkCA(pem string) error {
	if pem != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(pem)) {
		return errors.New("ca contains no certificate in PEM")
	}
	return nil
}

// isSecret returns an error if a text of a connection is a value and not the name of a secret.
func isSecret(key string, t *secret.Text) error {
	if t != nil && t.Secret == "" {
		return fmt.Errorf("%s must be {secret: NAME}: connections are shown, so they hold no value of a secret", key)
	}
	return nil
}

// Secrets are the plain texts of a connection that may be secrets.
func (k *Kafka) Secrets() []*secret.Text {
	all := []*secret.Text{k.Key}
	if k.SASL != nil {
		all = append(all, k.SASL.Password)
	}
	return all
}

// KafkaInput is the input of the source kafka.
type KafkaInput struct {
	Topic string `json:"topic"`
	Value string `json:"value"` // json | text | base64: what event.value is
	// Isolation is read_committed or read_uncommitted.
	Isolation string `json:"isolation"`
}

// Values of KafkaInput.Value and KafkaInput.Isolation.
const (
	ValueJSON       = "json"
	ValueText       = "text"
	ValueBase64     = "base64"
	ReadCommitted   = "read_committed"
	ReadUncommitted = "read_uncommitted"
)
