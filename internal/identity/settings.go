package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Settings is the value of the setting auth.
type Settings struct {
	OIDC []OIDC `json:"oidc"`
	LDAP *LDAP  `json:"ldap"` // nil if there is none
}

// OIDC is a provider of OpenID Connect.
type OIDC struct {
	Name             string `json:"name"`
	Issuer           string `json:"issuer"`
	ClientID         string `json:"client_id"`
	ClientSecretFile string `json:"client_secret_file"`
	// Scopes are requested in addition to openid. If there are none, profile and email are requested.
	Scopes []string `json:"scopes"`
	Strength
	Mapping
}

// Mapping maps the groups of a provider to roles.
type Mapping struct {
	// GroupsClaim is the claim that lists the groups of a person. The default is groups.
	GroupsClaim string `json:"groups_claim"`
	// Roles maps a group to its roles. A role is ROLE or ROLE@NAMESPACE.
	Roles map[string][]string `json:"roles"`
	// RequireGroup is the group that a person must be in to sign in. If it is "", every person may sign in.
	RequireGroup string `json:"require_group"`
}

// Grant is a role in a namespace. The namespace "" means all namespaces.
type Grant struct{ Role, Namespace string }

// The bounds of the setting.
const (
	providersMax = 20
	rolesMax     = 1000 // the largest number of roles from one provider
)

var providerName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// Parse reads the setting auth as JSON. checkNamespace returns an error for a text that is no name of a
// namespace.
func Parse(text string, checkNamespace func(string) error) (s Settings, err error) {
	if text == "" {
		return s, nil
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("write the keys of an identity provider as in docs/access.md: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return s, errors.New("there is text after the value")
	}
	if len(s.OIDC) > providersMax {
		return s, fmt.Errorf("oidc lists %d providers; at most %d are allowed", len(s.OIDC), providersMax)
	}
	names, issuers := map[string]bool{}, map[string]bool{}
	for i := range s.OIDC {
		p := &s.OIDC[i]
		switch {
		case !providerName.MatchString(p.Name):
			return s, fmt.Errorf("oidc[%d].name: %.40q is not a provider name: use up to 32 of a-z, 0-9 and -", i, p.Name)
		case names[p.Name]:
			return s, fmt.Errorf("oidc[%d].name: another provider has the name %s", i, p.Name)
		case issuers[p.Issuer]:
			return s, fmt.Errorf("oidc[%d].issuer: another provider has this issuer", i)
		}
		names[p.Name], issuers[p.Issuer] = true, true
		if err := p.check(checkNamespace); err != nil {
			return s, fmt.Errorf("oidc %s: %w", p.Name, err)
		}
	}
	if l := s.LDAP; l != nil {
		switch {
		case !providerName.MatchString(l.Name):
			return s, fmt.Errorf("ldap.name: %.40q is not a directory name: use up to 32 of a-z, 0-9 and -", l.Name)
		case names[l.Name]:
			return s, fmt.Errorf("ldap.name: a provider has the name %s", l.Name)
		}
		if err := l.check(checkNamespace); err != nil {
			return s, fmt.Errorf("ldap %s: %w", l.Name, err)
		}
	}
	return s, nil
}

func (p *OIDC) check(checkNamespace func(string) error) (err error) {
	if err := checkIssuer(p.Issuer); err != nil {
		return err
	}
	switch {
	case p.ClientID == "":
		return errors.New("client_id is missing: it is what the provider calls this server")
	case p.ClientSecretFile == "":
		return errors.New("client_secret_file is missing: name a file that only this user can read")
	}
	if p.ClientSecretFile, err = filepath.Abs(p.ClientSecretFile); err != nil {
		return fmt.Errorf("client_secret_file: %w", err)
	}
	if len(p.Scopes) == 0 {
		p.Scopes = []string{"profile", "email"}
	}
	if p.GroupsClaim == "" {
		p.GroupsClaim = "groups"
	}
	if err := p.Strength.check(); err != nil {
		return err
	}
	return p.Mapping.check(checkNamespace)
}

// checkIssuer refuses an issuer whose answers a third party could change on the way.
func checkIssuer(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("issuer: %.200q is not a URL such as https://id.example.com", text)
	case u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("issuer: %.200q is not an https:// address, so others on the way could sign in as anybody", text)
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (m *Mapping) check(checkNamespace func(string) error) error {
	n := 0
	for _, group := range slices.Sorted(maps.Keys(m.Roles)) {
		for _, text := range m.Roles[group] {
			n++
			g := grantOf(text)
			if g.Role == "" {
				return fmt.Errorf("roles of the group %.100q: %.100q is not a role: write ROLE, or ROLE@NAMESPACE", group, text)
			}
			if !strings.Contains(text, "@") {
				continue
			}
			if err := checkNamespace(g.Namespace); err != nil {
				return fmt.Errorf("roles of the group %.100q: %w", group, err)
			}
		}
	}
	if n > rolesMax {
		return fmt.Errorf("roles has %d roles; at most %d are allowed", n, rolesMax)
	}
	return nil
}

// grantOf reads ROLE@NAMESPACE or ROLE. The name of a namespace contains no @.
func grantOf(text string) Grant {
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		return Grant{Role: text[:i], Namespace: text[i+1:]}
	}
	return Grant{Role: text}
}

// grants returns the roles of a person's groups, without duplicates. It refuses a person who is not in the
// required group.
func (m *Mapping) grants(groups []string) ([]Grant, error) {
	if m.RequireGroup != "" && !slices.Contains(groups, m.RequireGroup) {
		return nil, refuse(OutsideGroup, "the account is not in the group %s, which this server requires; ask the administrators of the identity provider", m.RequireGroup)
	}
	var all []Grant
	for _, group := range slices.Sorted(maps.Keys(m.Roles)) {
		if !slices.Contains(groups, group) {
			continue
		}
		for _, text := range m.Roles[group] {
			if g := grantOf(text); !slices.Contains(all, g) {
				all = append(all, g)
			}
		}
	}
	return all, nil
}
