package registry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"skein.dev/skein/sdk/shared/secretfile"
)

// Kinds of registries.
const (
	KindEtcd      = "etcd"
	KindZooKeeper = "zookeeper"
)

// TTLDefault is the time to live of sessions. A ZooKeeper with the usual tick of 2 s grants no shorter one.
const TTLDefault = 4 * time.Second

// Bounds of the time to live.
const (
	ttlMin = 2 * time.Second
	ttlMax = time.Minute
)

// hostsMax bounds the number of servers of a registry, and pathMax the length of its path.
const (
	hostsMax = 20
	pathMax  = 200
)

// Settings is the address of a registry. The zero value means that there is no registry.
type Settings struct {
	Kind         string
	Hosts        []string // host:port
	Path         string   // the path of the cluster's entries, such as /skein
	TTL          time.Duration
	TLS          bool
	CA           string // file with the trusted authorities; "" means those of the system
	Cert, Key    string // files with the certificate that this node shows; "" if there is none
	User         string
	PasswordFile string // "" if User is ""
}

// Parse reads the setting registry: etcd://HOST:PORT,…/PATH?… or zookeeper://…. An "s" after the kind means TLS.
func Parse(text string) (Settings, error) {
	var s Settings
	if text == "" {
		return s, nil
	}
	scheme, rest, ok := strings.Cut(text, "://")
	s.Kind, s.TLS = strings.TrimSuffix(scheme, "s"), strings.HasSuffix(scheme, "s")
	if !ok || s.Kind != KindEtcd && s.Kind != KindZooKeeper {
		return s, errors.New("write etcd://HOST:PORT/PATH, etcds:// with TLS, zookeeper:// or zookeepers://")
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	if strings.Contains(hosts, "@") {
		return s, errors.New("write the user after the path, as ?user=NAME, and the password into the file of registry_password_file")
	}
	if err := s.setHosts(hosts); err != nil {
		return s, err
	}
	s.Path = "/" + strings.Trim(path, "/")
	if s.Path == "/" {
		s.Path = "/skein"
	}
	if len(s.Path) > pathMax || strings.ContainsFunc(s.Path, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }) || strings.Contains(s.Path, "//") || strings.Contains(s.Path, "/.") {
		return s, fmt.Errorf("the path %q is not plain: use up to %d letters, digits, - and _, such as /skein", s.Path, pathMax)
	}
	return s, s.setQuery(query)
}

func (s *Settings) setHosts(text string) error {
	port := map[string]string{KindEtcd: "2379", KindZooKeeper: "2181"}[s.Kind]
	for _, h := range strings.Split(text, ",") {
		if _, _, err := net.SplitHostPort(h); err != nil {
			h = net.JoinHostPort(strings.Trim(h, "[]"), port)
		}
		if name, number, err := net.SplitHostPort(h); err != nil || name == "" || number == "" || strings.ContainsAny(name, " /\\") {
			return fmt.Errorf("%q is not HOST:PORT", h)
		}
		s.Hosts = append(s.Hosts, h)
	}
	if len(s.Hosts) > hostsMax {
		return fmt.Errorf("it names %d servers; name at most %d of them", len(s.Hosts), hostsMax)
	}
	return nil
}

func (s *Settings) setQuery(text string) error {
	query, err := url.ParseQuery(text)
	if err != nil {
		return fmt.Errorf("the part after ?: %w", err)
	}
	s.TTL = TTLDefault
	for key, values := range query {
		value := values[len(values)-1]
		switch key {
		case "ttl":
			if s.TTL, err = time.ParseDuration(value); err != nil || s.TTL < ttlMin || s.TTL > ttlMax {
				return fmt.Errorf("ttl: %q is not a duration from %v to %v", value, ttlMin, ttlMax)
			}
		case "user":
			s.User = value
		case "ca":
			s.CA, err = filepath.Abs(value)
		case "cert":
			s.Cert, err = filepath.Abs(value)
		case "key":
			s.Key, err = filepath.Abs(value)
		default:
			return fmt.Errorf("the parameter %s does not exist; the parameters are ca, cert, key, ttl and user", key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	switch {
	case (s.Cert == "") != (s.Key == ""):
		return errors.New("cert and key belong together: give both or none")
	case s.CA+s.Cert != "" && !s.TLS:
		return fmt.Errorf("ca, cert and key need TLS: write %ss:// for %s://", s.Kind, s.Kind)
	case s.User != "" && !s.TLS && !s.local():
		return fmt.Errorf("a password must not cross the network in plain text: write %ss:// for %s://", s.Kind, s.Kind)
	}
	return nil
}

// local reports whether all servers are on this machine.
func (s *Settings) local() bool {
	for _, h := range s.Hosts {
		name, _, _ := net.SplitHostPort(h)
		if ip := net.ParseIP(name); name != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}

// Where returns the address without secrets, for people.
func (s *Settings) Where() string {
	scheme := s.Kind
	if s.TLS {
		scheme += "s"
	}
	return scheme + "://" + strings.Join(s.Hosts, ",") + s.Path
}

// Open returns the registry of the settings. It makes no call.
func (s *Settings) Open() Registry {
	if s.Kind == KindZooKeeper {
		return &zooKeeper{of: *s}
	}
	return &etcd{of: *s}
}

// Judge returns the judge of the registry, or nil if the settings have no registry. See Config.Patience for
// patience.
func (s *Settings) Judge(patience time.Duration, log *slog.Logger) *Judge {
	if s.Kind == "" {
		return nil
	}
	return NewJudge(Config{Registry: s.Open(), Where: s.Where(), TTL: s.TTL, Patience: patience, Log: log})
}

// password reads the password of the user. It is called for each session, so that the password can be changed
// while a node runs.
func (s *Settings) password() (string, error) {
	if s.User == "" {
		return "", nil
	}
	if s.PasswordFile == "" {
		return "", errors.New("the registry has a user and no password: name the file of the password in registry_password_file")
	}
	text, err := secretfile.Read(s.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("registry_password_file: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// tlsConfig reads the certificates. It is also called for each session. It returns nil without TLS.
func (s *Settings) tlsConfig() (*tls.Config, error) {
	if !s.TLS {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		text, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, fmt.Errorf("the authorities of the registry: %w", err)
		}
		if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the authorities of the registry: %s holds no certificate in PEM", s.CA)
		}
	}
	if s.Cert != "" {
		key, err := secretfile.Read(s.Key)
		if err != nil {
			return nil, fmt.Errorf("the key for the registry: %w", err)
		}
		cert, err := os.ReadFile(s.Cert)
		if err != nil {
			return nil, fmt.Errorf("the certificate for the registry: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("the certificate for the registry, %s: %w", s.Cert, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
