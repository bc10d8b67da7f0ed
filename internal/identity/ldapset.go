package identity

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/go-ldap/ldap/v3"
)

// LDAP is a directory with accounts of people. In its texts, {name} is replaced by the name that a person
// typed, and {dn} by the entry of that person.
type LDAP struct {
	Name string `json:"name"`
	// URL is ldaps://HOST, or ldap://HOST for StartTLS.
	URL string `json:"url"`
	// CAFile holds the authorities that the server trusts. "" means the authorities of the system.
	CAFile string `json:"ca_file"`
	// Plaintext sends passwords without TLS. It is permitted only for ldap:// on loopback.
	Plaintext bool `json:"plaintext"`
	// BindDN is the account with which the server finds people. Without it, the server signs in with the name
	// that UserDN forms.
	BindDN           string `json:"bind_dn"`
	BindPasswordFile string `json:"bind_password_file"`
	UserDN           string `json:"user_dn"`
	UserBase         string `json:"user_base"`
	UserFilter       string `json:"user_filter"`  // "" means (uid={name})
	GroupBase        string `json:"group_base"`   // "" if people are in no groups
	GroupFilter      string `json:"group_filter"` // "" means (member={dn})
	// These attributes contain the name of a new user, the permanent id of an account, and the name of a group.
	NameAttribute  string `json:"name_attribute"`  // "" means uid
	IDAttribute    string `json:"id_attribute"`    // "" means entryUUID
	GroupAttribute string `json:"group_attribute"` // "" means cn
	// Roles and RequireGroup have the same meaning as in a Mapping.
	Roles        map[string][]string `json:"roles"`
	RequireGroup string              `json:"require_group"`
}

func (l *LDAP) mapping() *Mapping {
	return &Mapping{Roles: l.Roles, RequireGroup: l.RequireGroup}
}

// fill replaces {name} and {dn}, each with the escapes for its position.
func fill(text, name, dn string, escape func(string) string) string {
	return strings.NewReplacer("{name}", escape(name), "{dn}", escape(dn)).Replace(text)
}

// check refuses settings by which no person can sign in, or that expose passwords on the way. It fills in
// missing values.
func (l *LDAP) check(checkNamespace func(string) error) (err error) {
	for _, one := range [...]struct {
		to    *string
		value string
	}{{&l.UserFilter, "(uid={name})"}, {&l.GroupFilter, "(member={dn})"}, {&l.NameAttribute, "uid"}, {&l.IDAttribute, "entryUUID"}, {&l.GroupAttribute, "cn"}} {
		if *one.to == "" {
			*one.to = one.value
		}
	}
	if err := l.checkURL(); err != nil {
		return err
	}
	switch {
	case (l.UserDN == "") == (l.BindDN == ""):
		return errors.New("write either user_dn, such as uid={name},ou=people,dc=example,dc=com, or bind_dn with bind_password_file and user_base")
	case l.UserDN != "" && !strings.Contains(l.UserDN, "{name}"):
		return errors.New("user_dn has no {name}, so all people would be one account")
	case l.BindDN != "" && (l.BindPasswordFile == "" || l.UserBase == ""):
		return errors.New("bind_dn needs bind_password_file, a file that only this user can read, and user_base")
	case !strings.Contains(l.UserFilter, "{name}"):
		return errors.New("user_filter has no {name}, so all people would be one account")
	case l.GroupBase == "" && len(l.Roles)+len(l.RequireGroup) > 0:
		return errors.New("roles and require_group need group_base: without it, people are in no groups")
	}
	for key, text := range map[string]string{"user_filter": l.UserFilter, "group_filter": l.GroupFilter} {
		if _, err := ldap.CompileFilter(fill(text, "n", "cn=n", ldap.EscapeFilter)); err != nil {
			return fmt.Errorf("%s: %.200q is not a filter such as (uid={name}): %w", key, text, err)
		}
	}
	for key, text := range map[string]string{"user_dn": fill(l.UserDN, "n", "", ldap.EscapeDN), "bind_dn": l.BindDN, "user_base": l.UserBase, "group_base": l.GroupBase} {
		if _, err := ldap.ParseDN(text); err != nil {
			return fmt.Errorf("%s: %.200q is not a distinguished name: %w", key, text, err)
		}
	}
	for _, file := range [...]*string{&l.BindPasswordFile, &l.CAFile} {
		if *file == "" {
			continue
		}
		if *file, err = filepath.Abs(*file); err != nil {
			return err
		}
	}
	return l.mapping().check(checkNamespace)
}

// checkURL refuses an address over which a third party could read passwords.
func (l *LDAP) checkURL() error {
	u, err := url.Parse(l.URL)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("url: %.200q is not a URL such as ldaps://ldap.example.com", l.URL)
	case u.Scheme != "ldaps" && u.Scheme != "ldap":
		return fmt.Errorf("url: %.200q begins neither with ldaps:// nor with ldap://, which uses StartTLS", l.URL)
	case l.Plaintext && (u.Scheme == "ldaps" || !loopback(u.Hostname())):
		return errors.New("plaintext is allowed only for ldap:// on loopback, such as ldap://127.0.0.1: elsewhere others on the way could read passwords")
	}
	return nil
}
