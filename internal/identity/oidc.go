package identity

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Kind is the reason why a person was not signed in.
type Kind int

// The kinds of refusals.
const (
	_            Kind = iota
	Away              // the provider does not answer, or answers wrongly
	Stale             // the answer belongs to a sign-in that did not begin in this browser
	Denied            // the provider did not sign the person in
	OtherIssuer       // another provider has answered
	BadToken          // the ID token does not prove anything
	OutsideGroup      // the person is not in the required group
	Weak              // the person did not sign in at the provider as the server requires
	BadLogout         // the logout token is not valid
)

// Refusal is a sign-in that failed. Its text is for the person. Cause is for the log, and may be nil.
type Refusal struct {
	Kind  Kind
	Text  string
	Cause error
	Told  bool // the cause is already in the log
}

func (r *Refusal) Error() string { return r.Text }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Cause }

func refuse(kind Kind, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

func (r *Refusal) because(err error) *Refusal {
	r.Cause = cut(err)
	return r
}

// causeMax bounds the text of a cause, in bytes. The text may hold data of the provider.
const causeMax = 500

// cut returns an error with a text that is not too long for the log.
func cut(err error) error {
	if err == nil || len(err.Error()) <= causeMax {
		return err
	}
	return &shortened{err}
}

// shortened is an error with the beginning of its text.
type shortened struct{ err error }

func (s *shortened) Error() string { return strings.ToValidUTF8(s.err.Error()[:causeMax], "") + "…" }

// Unwrap returns the whole error.
func (s *shortened) Unwrap() error { return s.err }

// Person is a person whose identity a provider has confirmed.
type Person struct {
	Issuer, Subject string
	Source          string // the name of the provider in the store: oidc:NAME
	Names           []string
	Grants          []Grant // the rights from the person's groups
	Session         string  // the person's session at the provider, see sessionOf; "" if the provider names none
}

const (
	// describedFor is the age up to which the discovery document of a provider is used without another read.
	// If the next read fails, the old document stays in use.
	describedFor = time.Hour
	// awayFor is the time for which a provider that did not answer is not called again.
	awayFor = 3 * time.Second
	// groupsMax bounds the number of a person's groups. textMax bounds the bytes of a group's name and of a
	// subject.
	groupsMax = 5000
	textMax   = 500
)

// algorithms are the permitted algorithms for signatures of ID tokens.
var algorithms = []string{oidc.RS256, oidc.ES256, oidc.EdDSA}

// Provider is a provider of OpenID Connect.
type Provider struct {
	of     OIDC
	client *http.Client
	secret func(path string) ([]byte, error)
	log    *slog.Logger

	mu    sync.Mutex // protects following fields
	is    *described // nil if the provider has not answered yet
	asked time.Time  // the time of the last successful or failed call
	err   error      // the error of the call

	logouts logouts
}

// described is the discovery document of a provider.
type described struct {
	*oidc.Provider
	verifier *oidc.IDTokenVerifier
	keys     string
	style    oauth2.AuthStyle
	named    bool // answers of the provider name the issuer (RFC 9207)
	at       time.Time
}

// NewProvider returns a provider. It makes no call. secret reads a file with a secret.
func NewProvider(of OIDC, client *http.Client, secret func(path string) ([]byte, error), log *slog.Logger) *Provider {
	return &Provider{of: of, client: client, secret: secret, log: log}
}

// Name returns the name of the provider in the settings.
func (p *Provider) Name() string { return p.of.Name }

// Issuer returns the issuer of the provider.
func (p *Provider) Issuer() string { return p.of.Issuer }

// describe returns the discovery document of the provider. Concurrent callers share one call. The call
// continues if its caller leaves, because others wait for the result.
func (p *Provider) describe(ctx context.Context) (*described, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.is != nil && time.Since(p.is.at) < describedFor {
		return p.is, nil
	}
	if p.err == nil || time.Since(p.asked) >= awayFor {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callMax)
		is, err := p.discover(ctx)
		cancel()
		err = cut(err)
		p.asked = time.Now()
		p.told(err)
		if p.err = err; err == nil {
			p.is = is
		}
	}
	if p.is == nil {
		r := p.away(p.err)
		r.Told = true
		return nil, r
	}
	return p.is, nil
}

// told logs when the provider stops answering, and when it answers again.
func (p *Provider) told(err error) {
	switch {
	case err != nil && p.err == nil:
		p.log.Warn("an identity provider does not answer; only local accounts can sign in; skein doctor names the fault", "code", "identity_provider_away",
			"provider", p.of.Name, "issuer", p.of.Issuer, "err", err)
	case err == nil && p.err != nil:
		p.log.Info("an identity provider answers again", "code", "identity_provider_back", "provider", p.of.Name)
	}
}

func (p *Provider) away(err error) *Refusal {
	return refuse(Away, "the identity provider %s does not answer as it should; try again in a minute, or sign in with a local account", p.of.Name).because(err)
}

func (p *Provider) discover(ctx context.Context) (*described, error) {
	is, err := oidc.NewProvider(p.with(ctx), p.of.Issuer)
	if err != nil {
		return nil, err
	}
	var more struct {
		Auth    string   `json:"authorization_endpoint"`
		Token   string   `json:"token_endpoint"`
		Keys    string   `json:"jwks_uri"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
		Named   bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if err := is.Claims(&more); err != nil {
		return nil, fmt.Errorf("the discovery document of %s: %w", p.of.Issuer, err)
	}
	for _, one := range []string{more.Auth, more.Token, more.Keys} {
		if err := checkEndpoint(one); err != nil {
			return nil, fmt.Errorf("the discovery document of %s: %w", p.of.Issuer, err)
		}
	}
	d := &described{Provider: is, keys: more.Keys, named: more.Named, style: oauth2.AuthStyleInHeader, at: time.Now()}
	if len(more.Methods) > 0 && !slices.Contains(more.Methods, "client_secret_basic") {
		d.style = oauth2.AuthStyleInParams
	}
	d.verifier = is.Verifier(&oidc.Config{ClientID: p.of.ClientID, SupportedSigningAlgs: algorithms})
	return d, nil
}

// checkEndpoint refuses an address to which neither a browser nor a secret may be sent.
func checkEndpoint(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return fmt.Errorf("%.200q is not an https:// address", text)
	}
	return nil
}

func (p *Provider) with(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.client)
}

func (p *Provider) oauth(d *described, redirect string) (*oauth2.Config, error) {
	secret, err := p.secret(p.of.ClientSecretFile)
	if err != nil {
		return nil, refuse(Away, "the server cannot read its secret for the identity provider %s; its log has the reason", p.of.Name).because(err)
	}
	to := d.Endpoint()
	to.AuthStyle = d.style
	return &oauth2.Config{ClientID: p.of.ClientID, ClientSecret: strings.TrimSpace(string(secret)), Endpoint: to, RedirectURL: redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, p.of.Scopes...)}, nil
}

// Begin returns the address of the provider to which the browser is sent, and the value of the cookie that
// the browser stores in the meantime. redirect is the address to which the provider sends the browser back.
// back is the path of the page that follows.
func (p *Provider) Begin(ctx context.Context, redirect, back string) (address, cookie string, err error) {
	d, err := p.describe(ctx)
	if err != nil {
		return "", "", err
	}
	o, err := p.oauth(d, redirect)
	if err != nil {
		return "", "", err
	}
	f := newFlow(back, time.Now())
	with := append(p.of.Strength.ask(), oidc.Nonce(f.value("nonce", p.of.Name, redirect)),
		oauth2.S256ChallengeOption(f.value("verifier", p.of.Name, redirect)))
	return o.AuthCodeURL(f.value("state", p.of.Name, redirect), with...), f.cookie(), nil
}

// Finish returns the person that the answer of the provider identifies, and the path of the page that
// follows. cookie is the value that Begin returned to this browser. answer is the query of the browser's
// request.
func (p *Provider) Finish(ctx context.Context, cookie, redirect string, answer url.Values) (who Person, back string, err error) {
	f, ok := flowOf(cookie, time.Now())
	if !ok || !hmac.Equal([]byte(single(answer, "state")), []byte(f.value("state", p.of.Name, redirect))) {
		return who, "", refuse(Stale, "this browser has not begun this sign-in, or began it more than %d minutes ago; sign in again", int(FlowLife.Minutes()))
	}
	d, err := p.describe(ctx)
	if err != nil {
		return who, "", err
	}
	if iss := single(answer, "iss"); answer.Has("iss") && iss != p.of.Issuer || d.named && iss == "" {
		return who, "", refuse(OtherIssuer, "the answer does not come from the identity provider %s; sign in again", p.of.Name)
	}
	if answer.Has("error") {
		return who, "", refuse(Denied, "the identity provider %s did not sign you in (%s)", p.of.Name, errorCode(single(answer, "error")))
	}
	o, err := p.oauth(d, redirect)
	if err != nil {
		return who, "", err
	}
	token, err := o.Exchange(p.with(ctx), single(answer, "code"), oauth2.VerifierOption(f.value("verifier", p.of.Name, redirect)))
	var said *oauth2.RetrieveError
	switch {
	case errors.As(err, &said) && said.Response.StatusCode < 500:
		return who, "", refuse(Denied, "the identity provider %s does not accept the answer of this browser (%s); sign in again", p.of.Name,
			errorCode(said.ErrorCode)).because(err)
	case err != nil:
		return who, "", p.away(err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := d.verifier.Verify(p.with(ctx), raw)
	if err == nil && !hmac.Equal([]byte(id.Nonce), []byte(f.value("nonce", p.of.Name, redirect))) {
		err = errors.New("the nonce is not that of this sign-in")
	}
	if err == nil {
		err = p.meant(id)
	}
	if err == nil && id.AccessTokenHash != "" {
		err = id.VerifyAccessToken(token.AccessToken)
	}
	if err == nil && (id.Subject == "" || len(id.Subject) > textMax) {
		err = fmt.Errorf("the subject has %d bytes; it must have 1 to %d", len(id.Subject), textMax)
	}
	if err != nil {
		return who, "", refuse(BadToken, "the identity provider %s has sent an ID token that is not valid; sign in again, or ask an administrator", p.of.Name).because(err)
	}
	if err := p.of.Strength.verify(id.Claims, time.Now()); err != nil {
		return who, "", refuse(Weak, "this server requires a stronger or a newer sign-in at the identity provider %s: %s", p.of.Name, err)
	}
	who, err = p.person(ctx, d, id, token)
	return who, f.back, err
}

// meant refuses an ID token that the provider made for another client.
func (p *Provider) meant(id *oidc.IDToken) error {
	var to struct {
		Azp string `json:"azp"`
	}
	if err := id.Claims(&to); err != nil {
		return err
	}
	if to.Azp != "" && to.Azp != p.of.ClientID || to.Azp == "" && len(id.Audience) > 1 {
		return fmt.Errorf("the ID token is for the client %.100q", to.Azp)
	}
	return nil
}

// person reads the provider's data about a person from the ID token. If the token lacks the groups or a name,
// person reads them from the provider's userinfo address.
func (p *Provider) person(ctx context.Context, d *described, id *oidc.IDToken, token *oauth2.Token) (who Person, err error) {
	said := map[string]json.RawMessage{}
	if err := id.Claims(&said); err != nil {
		return who, refuse(BadToken, "the ID token of the identity provider %s cannot be read", p.of.Name).because(err)
	}
	var sid string
	_ = json.Unmarshal(said["sid"], &sid) // a sid that is not a text counts as missing
	if (said[p.of.GroupsClaim] == nil || said["preferred_username"] == nil) && d.UserInfoEndpoint() != "" {
		info, err := d.UserInfo(p.with(ctx), oauth2.StaticTokenSource(token))
		if err != nil {
			return who, p.away(fmt.Errorf("the provider's data about the person: %w", err))
		}
		more := map[string]json.RawMessage{}
		if err := info.Claims(&more); err != nil || info.Subject != id.Subject {
			return who, refuse(BadToken, "the identity provider %s has answered for another person; sign in again", p.of.Name).because(err)
		}
		for name, value := range more {
			if said[name] == nil {
				said[name] = value
			}
		}
	}
	who = Person{Issuer: id.Issuer, Subject: id.Subject, Source: "oidc:" + p.of.Name, Session: p.sessionOf(sid)}
	for _, name := range []string{"preferred_username", "email"} {
		var text string
		if verified := string(said["email_verified"]); name == "email" && verified != "true" && verified != `"true"` { // some providers write a text
			continue
		}
		if json.Unmarshal(said[name], &text) == nil && text != "" {
			who.Names = append(who.Names, text)
		}
	}
	groups, err := groupsOf(said[p.of.GroupsClaim])
	if err != nil {
		return who, refuse(BadToken, "the claim %s of the identity provider %s lists no groups; ask an administrator", p.of.GroupsClaim, p.of.Name).because(err)
	}
	who.Grants, err = p.of.grants(groups)
	return who, err
}

// groupsOf reads a claim that is a list of groups, one group, or absent.
func groupsOf(raw json.RawMessage) (groups []string, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] == '"' {
		groups = make([]string, 1)
		err = json.Unmarshal(raw, &groups[0])
	} else {
		err = json.Unmarshal(raw, &groups)
	}
	switch {
	case err != nil:
		return nil, err
	case len(groups) > groupsMax:
		return nil, fmt.Errorf("%d groups; at most %d are read", len(groups), groupsMax)
	}
	return groups, nil
}

// single returns the value of a parameter. It returns "" unless the parameter occurs exactly once.
func single(q url.Values, name string) string {
	if len(q[name]) != 1 {
		return ""
	}
	return q[name][0]
}

// errorCode returns an error code of OAuth if it is safe to show, because the answer comes through the
// browser.
func errorCode(text string) string {
	odd := func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' }
	if text == "" || len(text) > 50 || strings.ContainsFunc(text, odd) {
		return "no known reason"
	}
	return text
}
