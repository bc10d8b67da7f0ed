// Package identity signs people in by the identity providers of a company.
//
//   - settings.go: the setting auth, and which roles the groups of a provider give.
//   - flow.go: a sign-in under way, as its browser keeps it in a cookie.
//   - oidc.go: OpenID Connect: the address of the provider, and the person that its answer names.
//   - ldapset.go: the settings of a directory.
//   - ldap.go: a directory: the person whom a name and a password name.
//   - outgoing.go: the bounds of calls to providers.
//
// A person is an issuer and a subject. Names and e-mail addresses are only for display: a provider may let
// people change them, and may give them to others.
package identity
