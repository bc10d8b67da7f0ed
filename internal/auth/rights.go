package auth

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// The rights of callers whose credential names no principal: they follow from its kind. A caller without a
// token, where none is required, is a program on the machine of the node.
var (
	kindRights = map[string]*access.Principal{
		store.TokenWorker: withAll(access.Worker),
		store.TokenNode:   withAll(access.Node),
		kindLocal:         localCaller,
	}
	localCaller = withAll(access.Local)
	localToken  = store.Token{Kind: kindLocal, Name: LocalName}
)

// kindLocal is the kind of the token that a node makes at each start for programs of its user.
const kindLocal = "local"

// NewLocal makes the token of a start, and its hash.
func NewLocal() (secret string, hash []byte) {
	secret = NewSecret(kindLocal)
	hash, err := HashSecret(secret)
	if err != nil { // it was just made
		panic(err)
	}
	return secret, hash
}

// LocalName is the name of a caller without a token.
const LocalName = "local"

// AsLocal answers calls of this process itself, and calls about which another node has decided, with all
// rights.
func AsLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, holding(r, localToken)) })
}

// AsNode is a request of this node itself to another one.
func AsNode(r *http.Request) *http.Request { return holding(r, store.Token{Kind: store.TokenNode}) }

func holding(r *http.Request, t store.Token) *http.Request {
	ctx := context.WithValue(r.Context(), holderKey{}, t)
	return r.WithContext(context.WithValue(ctx, heldKey{}, held{kindRights[t.Kind], 0}))
}

// withAll makes a principal with the role cluster in all namespaces.
func withAll(kind access.Kind) *access.Principal {
	role, _ := access.BuiltinRole("cluster")
	p, err := access.NewPrincipal(kind, LocalName, []access.Binding{{Role: role, Namespace: access.Everywhere}}, access.Whole())
	if err != nil { // one binding is within every bound
		panic(err)
	}
	return p
}

// rightsOf returns the rights of the holder of a token, and the instant at which they count, by the clock of
// the store. A token of an unknown kind has none.
func (b *book) rightsOf(t *store.Token) (*access.Principal, dag.Micros) {
	if t.Kind != store.TokenAPI {
		return kindRights[t.Kind], 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rights[t.ID], b.clock + dag.Micros(time.Since(b.read).Microseconds())
}

// allows reports whether the holder of a token has a verb in any namespace. The server decides about the
// namespace of the object.
func (g *Gate) allows(t *store.Token, v access.Verb) bool {
	p, now := g.book.rightsOf(t)
	return access.Anywhere(p, v, now)
}

// held is what a call may do.
type held struct {
	p   *access.Principal
	now dag.Micros
}

type heldKey struct{}

// hold notes in a context whose call it is.
func (g *Gate) hold(ctx context.Context, t *store.Token) context.Context {
	p, now := g.book.rightsOf(t)
	return context.WithValue(context.WithValue(ctx, holderKey{}, *t), heldKey{}, held{p, now})
}

// principals gives each API token the rights that its principal, its scope and its maker have in common.
func principals(tokens []store.Token, r *store.Rights) map[int64]*access.Principal {
	roles := map[string]access.Role{}
	for _, one := range r.Roles {
		verbs, _ := knownVerbs(one.Verbs)
		roles[one.Name] = access.Role{Name: one.Name, Verbs: verbs}
	}
	for _, one := range access.Builtin() {
		roles[one.Name] = one
	}
	bindings := map[int64][]access.Binding{}
	for _, b := range r.Bindings {
		bindings[b.Subject] = append(bindings[b.Subject], access.Binding{Role: roles[b.Role], Namespace: b.Namespace, Expires: b.Expires})
	}
	of := func(id int64, scope access.Scope) *access.Principal {
		i, there := slices.BinarySearchFunc(r.Principals, id, func(p store.Principal, id int64) int { return cmp.Compare(p.ID, id) })
		if !there || r.Principals[i].State != store.PrincipalActive {
			return nil
		}
		p, err := access.NewPrincipal(access.ParseKind(r.Principals[i].Kind), r.Principals[i].Name, bindings[id], scope)
		if err != nil { // more bindings than count
			return nil
		}
		return p
	}
	all := map[int64]*access.Principal{}
	for i := range tokens {
		t := &tokens[i]
		if t.Kind != store.TokenAPI {
			continue
		}
		p := of(t.Principal, scopeOf(t))
		if p != nil && t.Maker != 0 {
			p = p.Under(of(t.Maker, access.Whole()))
		}
		all[t.ID] = p
	}
	return all
}

// scopeOf is how far a token narrows the rights of its principal.
func scopeOf(t *store.Token) access.Scope {
	verbs, all := knownVerbs(t.Verbs)
	if all {
		verbs = access.Whole().Verbs
	}
	return access.Scope{Verbs: verbs, Namespaces: strings.Fields(t.Namespaces)}
}

// knownVerbs reads names of verbs. A name that this program does not know gives nothing.
func knownVerbs(text string) (set access.Verbs, all bool) {
	for _, name := range strings.Fields(text) {
		v, err := access.ParseVerb(name)
		if err == nil {
			set |= access.VerbsOf(v)
		}
		all = all || name == store.All
	}
	return set, all
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
	if t, ok := holder(ctx); ok {
		p, _ = Rights(ctx)
		return t.Name, p
	}
	return LocalName, localCaller
}

// Rights returns the rights of the caller of a request that a gate let through, and the instant at which they
// count, by the clock of the store.
func Rights(ctx context.Context) (*access.Principal, dag.Micros) {
	if h, ok := ctx.Value(heldKey{}).(held); ok {
		return h.p, h.now
	}
	if t, ok := Holder(ctx); ok {
		return kindRights[t.Kind], 0
	}
	return localCaller, 0
}
