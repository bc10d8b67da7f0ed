package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// The kinds of tokens: what their holder may call.
const (
	TokenAPI    = "api"    // everything that people and programs call
	TokenWorker = "worker" // what workers call
	TokenNode   = "node"   // what nodes of a cluster say to each other
)

// Token is a right to call. The store keeps only the hash of the secret that its holder shows.
type Token struct {
	ID      int64
	Kind    string
	Name    string // unique among those that are not revoked: on whose behalf calls are made
	Hash    []byte // SHA-256 of the secret that the holder shows
	Created dag.Micros
	Expires dag.Micros // 0: never
	Revoked dag.Micros // 0: not
	By      string     // the person who made it

	// Principal is whose rights the token has; it counts for the kind TokenAPI. 0: none, and so no right.
	Principal int64
	// Verbs and Namespaces narrow these rights, separated by spaces. All: to nothing less. Empty: to nothing.
	Verbs, Namespaces string
	// Maker is the principal that made the token: without its rights the token has none. 0: an operator with
	// the database or the machine of a node made it.
	Maker int64
}

// WholeToken returns a token with all rights of its kind. Those of an API token are those of FirstService.
func WholeToken(kind, name string, hash []byte) Token {
	return Token{Kind: kind, Name: name, Hash: hash, Principal: FirstService, Verbs: All, Namespaces: All}
}

// Valid reports whether the token is valid now.
func (t *Token) Valid(now dag.Micros) bool {
	return t.Revoked == 0 && (t.Expires == 0 || now < t.Expires)
}

// TokensMax bounds the tokens of a database, including revoked ones: they are read as one list.
const TokensMax = 1000

// Tokens is the part of a store that keeps tokens. It is independent of shards and of Export: a copy of a
// database gives no right to call it.
type Tokens interface {
	// AddToken adds a token and gives it its number and time. It returns ErrRefused if the name is taken or
	// if there are TokensMax tokens.
	AddToken(ctx context.Context, t Token) (Token, error)
	// TokenByHash finds a token, also a revoked one.
	TokenByHash(ctx context.Context, hash []byte) (Token, error)
	// TokenList lists all by number.
	TokenList(ctx context.Context) ([]Token, error)
	// RevokeToken revokes a token. A revoked one does not change. It returns ErrNotFound if there is none.
	RevokeToken(ctx context.Context, id int64) error
}
