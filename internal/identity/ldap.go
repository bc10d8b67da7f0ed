package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-ldap/ldap/v3"
)

// ErrNobody is the error of every sign-in that fails because of the person: there is no such account, the
// password is wrong, or the account may not sign in.
var ErrNobody = errors.New("the directory has no account with this name and password")

// Directory is a directory that is read over LDAP.
type Directory struct {
	of     LDAP
	secret func(path string) ([]byte, error)
	log    *slog.Logger

	mu   sync.Mutex // protects following fields
	away bool       // the log has a line that the directory does not answer
}

// NewDirectory returns a directory. It makes no call. secret reads a file with a password.
func NewDirectory(of LDAP, secret func(path string) ([]byte, error), log *slog.Logger) *Directory {
	return &Directory{of: of, secret: secret, log: log}
}

// Name returns the name of the directory in the settings.
func (d *Directory) Name() string { return d.of.Name }

// Source returns the name of the directory in the store, such as ldap:corp.
func (d *Directory) Source() string { return "ldap:" + d.of.Name }

// URL returns the address of the directory.
func (d *Directory) URL() string { return d.of.URL }

// SignIn returns the person who has the given name and password. If there is none, the error is ErrNobody or
// a *Refusal.
func (d *Directory) SignIn(ctx context.Context, name, password string) (who Person, err error) {
	if name == "" || password == "" { // a directory accepts a bind with an empty password (RFC 4513, 5.1.2)
		return who, ErrNobody
	}
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	c, err := d.dial(ctx)
	if err == nil {
		defer c.Close()
		who, err = d.person(c, name, password)
	}
	var refused *Refusal
	if errors.Is(err, ErrNobody) || errors.As(err, &refused) {
		d.told(nil)
		return who, err
	}
	err = cut(err)
	d.told(err)
	if err != nil {
		r := refuse(Away, "the directory %s does not answer as it should; try again in a minute, or sign in with a local account", d.of.Name).because(err)
		r.Told = true
		return who, r
	}
	return who, nil
}

// told logs when the directory stops answering, and when it answers again.
func (d *Directory) told(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil && !d.away:
		d.log.Warn("a directory does not answer; only local accounts can sign in; skein doctor names the fault", "code", "directory_away", "directory", d.of.Name, "url", d.of.URL, "err", err)
	case err == nil && d.away:
		d.log.Info("a directory answers again", "code", "directory_back", "directory", d.of.Name)
	}
	d.away = err != nil
}

// dial connects to the directory. The connection cannot be used after the end of ctx.
func (d *Directory) dial(ctx context.Context) (*ldap.Conn, error) {
	u, err := url.Parse(d.of.URL)
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	if d.of.CAFile != "" {
		text, err := os.ReadFile(d.of.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca_file: %s holds no certificate in PEM", d.of.CAFile)
		}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"ldap": "389", "ldaps": "636"}[u.Scheme]
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		_ = raw.SetDeadline(end) // an error means that the connection is gone
	}
	var conn net.Conn = &boundedConn{raw, answerMax}
	if u.Scheme == "ldaps" {
		over := tls.Client(conn, cfg)
		if err := over.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, err
		}
		conn = over
	}
	c := ldap.NewConn(conn, u.Scheme == "ldaps")
	c.SetTimeout(callMax)
	c.Start()
	if u.Scheme == "ldap" && !d.of.Plaintext {
		if err := c.StartTLS(cfg); err != nil {
			_ = c.Close()
			return nil, err
		}
	}
	return c, nil
}

// boundedConn bounds the bytes that are read from a connection.
type boundedConn struct {
	net.Conn
	left int
}

// Read implements net.Conn.
func (b *boundedConn) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("the answers of the directory are longer than 1 MiB")
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// person binds as a person, and reads the entry and the groups of that person.
func (d *Directory) person(c *ldap.Conn, name, password string) (who Person, err error) {
	base, scope, filter := fill(d.of.UserDN, name, "", ldap.EscapeDN), ldap.ScopeBaseObject, "(objectClass=*)"
	if d.of.UserDN == "" {
		base, scope, filter = d.of.UserBase, ldap.ScopeWholeSubtree, fill(d.of.UserFilter, name, "", ldap.EscapeFilter)
		if err := d.bindSelf(c); err != nil {
			return who, err
		}
	} else if err := bindAs(c, base, password); err != nil {
		return who, err
	}
	found, err := c.Search(ldap.NewSearchRequest(base, scope, ldap.NeverDerefAliases, 2, int(callMax.Seconds()), false, filter,
		[]string{d.of.NameAttribute, d.of.IDAttribute}, nil))
	switch {
	case ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject):
		return who, ErrNobody
	case ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded), err == nil && len(found.Entries) > 1:
		return who, refuse(BadToken, "the directory %s has several accounts of this name; ask an administrator", d.of.Name).
			because(fmt.Errorf("user_filter finds several entries for %.100q", name))
	case err != nil:
		return who, fmt.Errorf("search of people: %w", err)
	case len(found.Entries) == 0: // this includes a referral, which is not followed
		return who, ErrNobody
	}
	entry := found.Entries[0]
	if d.of.UserDN == "" {
		if err := bindAs(c, entry.DN, password); err != nil {
			return who, err
		}
	}
	who = Person{Issuer: d.Source(), Subject: textOf(entry.GetEqualFoldRawAttributeValue(d.of.IDAttribute)), Source: d.Source(),
		Names: entry.GetEqualFoldAttributeValues(d.of.NameAttribute)}
	if who.Subject == "" || len(who.Subject) > textMax {
		return who, refuse(BadToken, "the directory %s does not say which account this is; ask an administrator", d.of.Name).
			because(fmt.Errorf("the entry %.200q has no %s, or one that is too long", entry.DN, d.of.IDAttribute))
	}
	groups, err := d.groups(c, name, entry.DN)
	if err != nil {
		return who, err
	}
	who.Grants, err = d.of.mapping().grants(groups)
	return who, err
}

// groups lists the groups of a person.
func (d *Directory) groups(c *ldap.Conn, name, dn string) (groups []string, err error) {
	if d.of.GroupBase == "" {
		return nil, nil
	}
	if d.of.UserDN == "" { // the account of the server may read more than the person's own account
		if err := d.bindSelf(c); err != nil {
			return nil, err
		}
	}
	found, err := c.Search(ldap.NewSearchRequest(d.of.GroupBase, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, groupsMax, int(callMax.Seconds()), false,
		fill(d.of.GroupFilter, name, dn, ldap.EscapeFilter), []string{d.of.GroupAttribute}, nil))
	if err != nil {
		return nil, fmt.Errorf("search of groups: %w", err)
	}
	for _, g := range found.Entries {
		groups = append(groups, g.GetEqualFoldAttributeValues(d.of.GroupAttribute)...)
	}
	return groups, nil
}

// bindSelf binds as the account of this server.
func (d *Directory) bindSelf(c *ldap.Conn) error {
	password, err := d.secret(d.of.BindPasswordFile)
	if err != nil {
		return fmt.Errorf("bind_password_file: %w", err)
	}
	if len(password) == 0 {
		return fmt.Errorf("bind_password_file: %s is empty", d.of.BindPasswordFile)
	}
	if err := c.Bind(d.of.BindDN, string(password)); err != nil {
		return fmt.Errorf("bind as %s: %w", d.of.BindDN, err)
	}
	return nil
}

// bindAs binds as a person. It returns ErrNobody if the person cannot sign in.
func bindAs(c *ldap.Conn, dn, password string) error {
	err := c.Bind(dn, password)
	for _, code := range [...]uint16{ldap.LDAPResultInvalidCredentials, ldap.LDAPResultInappropriateAuthentication, ldap.LDAPResultNoSuchObject,
		ldap.LDAPResultConstraintViolation, ldap.LDAPResultUnwillingToPerform, ldap.LDAPResultInsufficientAccessRights, ldap.LDAPResultInvalidDNSyntax,
		ldap.ErrorEmptyPassword} {
		if ldap.IsErrorWithCode(err, code) {
			return ErrNobody
		}
	}
	if err != nil {
		return fmt.Errorf("bind as a person: %w", err)
	}
	return nil
}

// textOf returns a value as text. A value that is no text, such as objectGUID, becomes hexadecimal.
func textOf(value []byte) string {
	text := string(value)
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return hex.EncodeToString(value)
	}
	return text
}

// Check connects to the directory, binds as the account of this server, and checks the bases of the searches.
// It returns an error that names the first fault.
func (d *Directory) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	c, err := d.dial(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", cut(err))
	}
	defer c.Close()
	if d.of.UserDN != "" { // the server has no account in the directory, and cannot search
		return nil
	}
	if err := d.bindSelf(c); err != nil {
		return cut(err)
	}
	for key, base := range map[string]string{"user_base": d.of.UserBase, "group_base": d.of.GroupBase} {
		if base == "" {
			continue
		}
		_, err := c.Search(ldap.NewSearchRequest(base, ldap.ScopeBaseObject, ldap.NeverDerefAliases, 1, int(callMax/time.Second), false, "(objectClass=*)", []string{"1.1"}, nil))
		if err != nil {
			return fmt.Errorf("%s %s: %w", key, base, cut(err))
		}
	}
	return nil
}
