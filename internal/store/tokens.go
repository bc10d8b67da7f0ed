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

// Token is a right to call. What its holder shows is never stored, only its hash.
type Token struct {
	ID      int64
	Kind    string
	Name    string // unique among those that are not revoked: on whose behalf calls are made
	Hash    []byte // SHA-256 of what the holder shows
	Created dag.Micros
	Expires dag.Micros // 0: never
	Revoked dag.Micros // 0: not
	By      string     // who made it
}

// Valid reports whether it counts now.
func (t *Token) Valid(now dag.Micros) bool {
	return t.Revoked == 0 && (t.Expires == 0 || now < t.Expires)
}

// TokensMax bounds the tokens of a database, revoked ones included: they are read as one list.
const TokensMax = 1000

// Tokens is the part of a store that keeps tokens. It has nothing to do with shards, nor with
// Export: a copy of a database gives nobody a right to call it.
type Tokens interface {
	// AddToken writes a token down and gives it its number and time. ErrRefused: there is one
	// of this name, or there are TokensMax of them.
	AddToken(ctx context.Context, t Token) (Token, error)
	// TokenByHash finds a token, revoked ones too.
	TokenByHash(ctx context.Context, hash []byte) (Token, error)
	// TokenList lists all by number.
	TokenList(ctx context.Context) ([]Token, error)
	// RevokeToken ends a token; one that is revoked stays as it is. ErrNotFound: there is none.
	RevokeToken(ctx context.Context, id int64) error
}
