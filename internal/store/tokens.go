package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
)

// The kinds of tokens. The kind decides which calls its holder may make.
const (
	TokenAPI    = "api"    // calls of people and programs
	TokenWorker = "worker" // calls of workers
	TokenNode   = "node"   // calls between the nodes of a cluster
	// TokenInvite is the kind of an invitation. Its holder exchanges it for the certificate of a worker.
	TokenInvite = "invite"
	// TokenCertificate is the kind of the row of a certificate of a worker or a node. Its holder shows no
	// secret: Hash is the SHA-256 of the public key in the certificate.
	TokenCertificate = "certificate"
)

// Token is a right to make calls. The store keeps only the hash of the secret that its holder sends.
type Token struct {
	ID      int64
	Kind    string
	Name    string // the name of the caller; unique among tokens that are neither revoked nor replaced
	Hash    []byte // SHA-256 of the secret that the holder shows
	Created dag.Micros
	Expires dag.Micros // 0 means never
	Revoked dag.Micros // 0 if the token was not revoked
	By      string     // the person who made it

	// Principal is the principal whose rights the token has. It applies to the kind TokenAPI. 0 means none,
	// and so no right.
	Principal int64
	// Verbs and Namespaces narrow these rights. They are separated by spaces. The value All keeps all rights.
	// An empty value leaves no right.
	Verbs, Namespaces string
	// Maker is the principal that made the token. The token has only rights that its maker has. 0 means an
	// operator with access to the database or to the machine of a node.
	Maker int64
	// Parent is the token that made this one. This token has no right that its parent does not have, and ends
	// with its parent. Parent is 0 if a session of a person, or an operator, made this token.
	Parent int64
	// Replaces is the predecessor of this token, or 0 if there is none. Replaced is the time at which this
	// token got a successor, or 0 if it has none.
	Replaces int64
	Replaced dag.Micros

	// Groups and Slots bound the worker of an invitation or a certificate, as Namespaces does. Groups are
	// separated by spaces. If Slots is 0, there is no bound.
	Groups string
	Slots  int32
	// Uses bounds the number of workers that join with an invitation. Used counts them.
	Uses, Used int32
	// Invite is the invitation with which the worker of a certificate joined.
	Invite int64
}

// Bound returns the namespaces of the worker of a certificate. nil means all. A row without any namespace
// allows none. Bound then returns a name that no namespace has.
func (t *Token) Bound() []string {
	only := strings.Fields(t.Namespaces)
	switch {
	case t.Namespaces == All:
		return nil
	case len(only) == 0:
		return []string{"~none"}
	}
	return only
}

// Joining is the use of an invitation.
type Joining struct {
	Invite int64
	Name   string // the name in the row of the certificate
	Hash   []byte // the hash of the worker's public key
	// Life is the time for which the certificate is valid.
	Life dag.Micros
}

// Enrolling is a certificate that a node has made for itself.
type Enrolling struct {
	Name string // name of the row
	Hash []byte // hash of the node's public key
	Life dag.Micros
}

// NodeTokenName returns the name of the row of a node's certificate. No token that people make has such a
// name.
func NodeTokenName(node string) string { return NodeTokenPrefix + node }

// NodeTokenPrefix begins the names of the rows of certificates of nodes.
const NodeTokenPrefix = "node "

// NodeToken returns the row of the certificate of a node.
func (n *Enrolling) NodeToken() Token {
	return Token{Kind: TokenCertificate, Name: n.Name, Hash: n.Hash, By: n.Name}
}

// Joinable returns the reason why an invitation cannot be used, or nil.
func Joinable(all []Token, j *Joining, now dag.Micros) error {
	i := slices.IndexFunc(all, func(t Token) bool { return t.ID == j.Invite && t.Kind == TokenInvite })
	switch {
	case i < 0 || !FamilyOf(all).Valid(&all[i], now):
		return fmt.Errorf("the invitation is revoked or has expired: %w", ErrFenced)
	case all[i].Used >= all[i].Uses:
		return fmt.Errorf("the invitation is used: %w", ErrFenced)
	case len(all) >= TokensMax:
		return fmt.Errorf("there are already %d tokens, invitations and certificates, which is the limit: %w", TokensMax, ErrRefused)
	}
	for i := range all {
		if o := &all[i]; o.Name == j.Name && o.Replaced == 0 && o.Valid(now) {
			return fmt.Errorf("%q has a certificate that is valid: %w", j.Name, ErrRefused)
		}
	}
	return nil
}

// NotJoined does the same as Joinable, for a use that was refused. It always returns an error.
func NotJoined(all []Token, j *Joining, now dag.Micros) error {
	if err := Joinable(all, j, now); err != nil {
		return err
	}
	return fmt.Errorf("the key of this worker was used with another invitation, or its certificate was revoked; make a new key and join again: %w", ErrRefused)
}

// Rotation replaces a token. The new one has the kind, the name, the principal, the verbs and the namespaces
// of the old one.
type Rotation struct {
	Token   int64      // the old one
	Grace   dag.Micros // the time for which the old token stays valid, but not beyond its end
	Hash    []byte     // the hash of the new token; the following fields are also those of the new token
	Expires dag.Micros
	By      string
	Maker   int64
	Parent  int64
}

// WholeToken returns a token with all rights of its kind. An API token gets the rights of FirstService.
func WholeToken(kind, name string, hash []byte) Token {
	return Token{Kind: kind, Name: name, Hash: hash, Principal: FirstService, Verbs: All, Namespaces: All}
}

// Valid reports whether the token is valid now.
func (t *Token) Valid(now dag.Micros) bool {
	return t.Revoked == 0 && (t.Expires == 0 || now < t.Expires)
}

// TokensMax bounds the tokens of a database, including revoked ones, because they are read as one list.
const TokensMax = 1000

// Tokens is the part of a store that keeps tokens. It is independent of shards and not part of Export: a
// copy of a database gives no right to call it.
type Tokens interface {
	// AddToken adds a token and gives it its number and time. It returns ErrRefused if the name is taken or
	// if there are TokensMax tokens.
	AddToken(ctx context.Context, t Token) (Token, error)
	// TokenByHash finds a token, even a revoked one.
	TokenByHash(ctx context.Context, hash []byte) (Token, error)
	// TokenList lists all tokens, ordered by number.
	TokenList(ctx context.Context) ([]Token, error)
	// RevokeToken revokes a token and those that must end with it, in one transaction. A revoked token does
	// not change. If one of these tokens does not exist, RevokeToken returns ErrNotFound, and nothing
	// changes.
	RevokeToken(ctx context.Context, id int64, more ...int64) error
	// RotateToken adds the successor of a token and sets the end of the old one, in one transaction. It
	// returns ErrNotFound if there is no such token. It returns ErrFenced if the token, the parent of the
	// successor or an ancestor of this parent was revoked or replaced, or has expired. It returns ErrRefused
	// if there are TokensMax tokens. After an error nothing changes.
	RotateToken(ctx context.Context, r Rotation) (Token, error)
	// JoinToken uses an invitation once and adds the row of the worker's certificate, in one transaction.
	// The row has the bounds, the maker and the parent of the invitation. If the invitation has already made
	// a row for this key and name, that row stays and only its end changes, so a caller whose answer was
	// lost can repeat the call. An expired row with that name loses the name.
	//
	// JoinToken returns ErrFenced if the invitation is used, revoked or expired. It returns ErrRefused if a
	// valid token has the name or the key, or if there are TokensMax tokens. After an error nothing changes.
	JoinToken(ctx context.Context, j Joining) (Token, error)
	// EnrollNode writes the row of a node's certificate: it puts the key and the end into the row of that
	// name, or adds a row. It returns ErrFenced if a revoked row has the key, and ErrRefused if there are
	// TokensMax tokens.
	EnrollNode(ctx context.Context, n Enrolling) (Token, error)
	// RenewToken prolongs the row of a certificate: the row then ends after the time life, counted from now.
	// It returns ErrFenced if the row was revoked or has expired.
	RenewToken(ctx context.Context, id int64, life dag.Micros) (Token, error)
}

// Enrolled returns the row of a certificate that a node has enrolled, or the reason why there is none. The
// parameter made holds the rows with the key of the certificate.
func Enrolled(made []Token, n *Enrolling, done bool) (Token, error) {
	switch {
	case done && len(made) == 1:
		return made[0], nil
	case len(made) > 0:
		return Token{}, fmt.Errorf("the certificate of the %s is revoked: %w", n.Name, ErrFenced)
	}
	return Token{}, fmt.Errorf("there are already %d tokens, invitations and certificates, which is the limit: %w", TokensMax, ErrRefused)
}

// NotRotated returns the reason why a token cannot be replaced.
func NotRotated(all []Token, r *Rotation) error {
	i := slices.IndexFunc(all, func(t Token) bool { return t.ID == r.Token })
	switch {
	case i < 0:
		return fmt.Errorf("token %d: %w", r.Token, ErrNotFound)
	case all[i].Revoked == 0 && all[i].Replaced == 0 && len(all) >= TokensMax:
		return fmt.Errorf("there are already %d tokens, invitations and certificates, which is the limit: %w", TokensMax, ErrRefused)
	case r.Parent != 0:
		return fmt.Errorf("token %d, its parent token %d, or an ancestor of that one was revoked or replaced, or has expired: %w", r.Token, r.Parent, ErrFenced)
	}
	return fmt.Errorf("token %d was revoked or replaced, or has expired: %w", r.Token, ErrFenced)
}
