package auth

import (
	"context"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/store"
)

// The rights of callers. A token has those of its kind: one for people and programs has the role cluster in
// all namespaces. A caller without a token, where none is required, is a program on the machine of the node.
var (
	kindRights = map[string]*access.Principal{
		store.TokenAPI:    withAll(access.Service),
		store.TokenWorker: withAll(access.Worker),
		store.TokenNode:   withAll(access.Node),
	}
	localCaller = withAll(access.Local)
)

// LocalName is the name of a caller without a token.
const LocalName = "local"

// withAll makes a principal with the role cluster in all namespaces.
func withAll(kind access.Kind) *access.Principal {
	role, _ := access.BuiltinRole("cluster")
	p, err := access.NewPrincipal(kind, LocalName, []access.Binding{{Role: role, Namespace: access.Everywhere}}, access.Whole())
	if err != nil { // one binding is within every bound
		panic(err)
	}
	return p
}

// allows reports whether the holder of a token has a verb. A token of an unknown kind has none.
func allows(t *store.Token, v access.Verb) bool {
	return access.Decide(kindRights[t.Kind], v, access.Everywhere, 0)
}

// kindFor is the kind of token that has a verb.
func kindFor(v access.Verb) string {
	switch v {
	case access.WorkerCall:
		return store.TokenWorker
	case access.NodeCall:
		return store.TokenNode
	}
	return store.TokenAPI
}

// Caller returns the name and the rights of the caller of a request that a gate let through.
func Caller(ctx context.Context) (name string, p *access.Principal) {
	if t, ok := Holder(ctx); ok {
		return t.Name, kindRights[t.Kind]
	}
	return LocalName, localCaller
}
