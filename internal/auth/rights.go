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

// The rights of callers whose credential names no principal follow from the kind of the credential. A
// caller without a token, where none is required, is a program on the node's machine.
var (
	kindRights = map[string]*access.Principal{
		store.TokenWorker: withAll(access.Worker),
		store.TokenNode:   withAll(access.Node),
		kindLocal:         localCaller,
		// An invitation permits only joining. The token of a certificate represents a worker.
		store.TokenInvite:      withAll(access.Invited),
		store.TokenCertificate: withAll(access.Worker),
	}
	localCaller = withAll(access.Local)
	localToken  = store.Token{Kind: kindLocal, Name: LocalName}
)

// kindLocal is the kind of the token that a node makes at each start, for programs of its user.
const kindLocal = "local"

// NewLocal makes the token of a start, and its hash.
func NewLocal() (secret string, hash []byte) {
	secret = NewSecret(kindLocal)
	hash, err := HashSecret(secret)
	if err != nil { // the secret was just made
		panic(err)
	}
	return secret, hash
}

// LocalName is the name that is recorded for a caller without a token.
const LocalName = "local"

// AsLocal gives all rights to a call. It is used for calls of this process itself, and for calls that another
// node has already authorized.
func AsLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, holding(r, localToken)) })
}

// AsNode marks a request that this node itself, of the given name, sends to another one.
func AsNode(r *http.Request, name string) *http.Request {
	return holding(r, store.Token{Kind: store.TokenNode, Name: name})
}

// NodeOf returns the name of the node that sends a call, if a certificate or the key of the nodes proves it,
// or "". A token of the kind node proves none, because many nodes may share it.
func NodeOf(ctx context.Context) string {
	if is, ok := ByCertificate(ctx); ok {
		return is.Node
	}
	if t, ok := Holder(ctx); ok && t.Kind == store.TokenNode && t.ID == 0 { // tokens of the store have an ID
		return t.Name
	}
	name, _ := ctx.Value(signerKey{}).(string)
	return name
}

func holding(r *http.Request, t store.Token) *http.Request {
	ctx := context.WithValue(r.Context(), holderKey{}, &t)
	return r.WithContext(context.WithValue(ctx, heldKey{}, &held{p: kindRights[t.Kind]}))
}

// withAll returns a principal with the role cluster in all namespaces.
func withAll(kind access.Kind) *access.Principal {
	role, _ := access.BuiltinRole("cluster")
	p, err := access.NewPrincipal(kind, LocalName, []access.Binding{{Role: role, Namespace: access.Everywhere}}, access.Whole())
	if err != nil { // impossible, because one binding is within every bound
		panic(err)
	}
	return p
}

// rightsOf returns the rights of a token's holder, and the instant at which they were read, by the store's
// clock. A token of an unknown kind has no rights.
func (b *book) rightsOf(t *store.Token) (*access.Principal, dag.Micros) {
	if t.Kind != store.TokenAPI && t.Kind != kindUser {
		return kindRights[t.Kind], 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.rights.tokens
	if t.Kind == kindUser {
		of = b.rights.users
	}
	return of[t.ID], b.clock + dag.Micros(time.Since(b.read).Microseconds())
}

// allows reports whether a token's holder has a verb in any namespace. The server checks the namespace of the
// object later.
func (g *Gate) allows(t *store.Token, v access.Verb) bool {
	p, now := g.book.rightsOf(t)
	return access.Anywhere(p, v, now)
}

// held is the rights of a call.
type held struct {
	p      *access.Principal
	now    dag.Micros
	behind []int64
}

// heldIn returns the rights of a call. It returns nil if no gate has checked the call.
func heldIn(ctx context.Context) *held {
	h, _ := ctx.Value(heldKey{}).(*held)
	return h
}

// rights are the rights of the callers that the store knows.
type rights struct {
	tokens map[int64]*access.Principal // token ID → principal of an API token, or of the maker of another token
	users  map[int64]*access.Principal // principal ID → principal of a person
}

// principals computes the rights of all callers. An API token has the rights that its principal, its scope,
// its maker and its parent have in common. A person has the rights of its bindings. A parent has a lower
// number than the tokens that it makes, so its rights are computed first.
func principals(tokens []store.Token, r *store.Rights) rights {
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
		if err != nil { // too many bindings
			return nil
		}
		return p
	}
	all := map[int64]*access.Principal{}
	for i := range tokens {
		t := &tokens[i]
		switch {
		case t.Kind == store.TokenAPI:
			p := of(t.Principal, scopeOf(t))
			if p != nil && t.Maker != 0 {
				p = p.Under(of(t.Maker, access.Whole()))
			}
			all[t.ID] = within(p, t, all)
		case t.Maker != 0:
			all[t.ID] = within(of(t.Maker, access.Whole()), t, all)
		case t.Parent != 0:
			all[t.ID] = all[t.Parent]
		}
	}
	users := map[int64]*access.Principal{}
	for i := range r.Principals {
		if r.Principals[i].Kind != store.PrincipalUser {
			continue
		}
		if p := of(r.Principals[i].ID, access.Whole()); p != nil {
			users[r.Principals[i].ID] = p
		}
	}
	return rights{all, users}
}

// within limits the rights of a token to the rights of its parent. If the parent has no rights, the token has
// none.
func within(p *access.Principal, t *store.Token, all map[int64]*access.Principal) *access.Principal {
	if p == nil || t.Parent == 0 {
		return p
	}
	if parent := all[t.Parent]; parent != nil {
		return p.Under(parent)
	}
	return nil
}

// Ended returns the valid tokens that every node nevertheless refuses, for one of three reasons: an ancestor
// of the token has ended, the principal of an API token is disabled or deleted, or the maker of a worker's or
// node's token no longer has every verb in every namespace.
func Ended(tokens []store.Token, r *store.Rights, now dag.Micros) map[int64]bool {
	of, family, ended := principals(tokens, r).tokens, store.FamilyOf(tokens), map[int64]bool{}
	for i := range tokens {
		t := &tokens[i]
		switch {
		case !t.Valid(now):
		case !family.Valid(t, now):
			ended[t.ID] = true
		case t.Kind == store.TokenAPI:
			ended[t.ID] = of[t.ID] == nil
		case t.Maker != 0 || t.Parent != 0:
			ended[t.ID] = !madeByAll(of[t.ID], now)
		}
	}
	return ended
}

// Widens reports whether made, a token that does not exist yet, would have a right that the token than does
// not have.
func Widens(tokens []store.Token, r *store.Rights, made, than *store.Token, now dag.Micros) bool {
	is := *made
	is.ID = 1 + slices.MaxFunc(tokens, func(a, b store.Token) int { return cmp.Compare(a.ID, b.ID) }).ID
	of := principals(append(slices.Clip(tokens), is), r).tokens
	return access.Lost(access.Can(of[is.ID], now), access.Can(of[than.ID], now))
}

// behind returns the IDs of the principals and makers of a token's ancestors.
func (b *book) behind(t *store.Token) (ids []int64) {
	if t.Parent == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	line, _ := b.family.Line(t)
	for _, one := range line[1:] {
		for _, id := range [...]int64{one.Principal, one.Maker} {
			if id != 0 {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// Behind returns the IDs of the principals without whose rights the token of a call has no rights: those of
// its ancestors, and their makers.
func Behind(ctx context.Context) []int64 {
	if h := heldIn(ctx); h != nil {
		return h.behind
	}
	return nil
}

// madeByAll reports whether the maker of a worker's or node's token has every verb everywhere.
func madeByAll(maker *access.Principal, now dag.Micros) bool {
	return access.MayGive(maker, access.Whole().Verbs, access.Everywhere, now) == nil
}

// scopeOf returns the scope to which a token narrows the rights of its principal.
func scopeOf(t *store.Token) access.Scope {
	verbs, all := knownVerbs(t.Verbs)
	if all {
		verbs = access.Whole().Verbs
	}
	return access.Scope{Verbs: verbs, Namespaces: strings.Fields(t.Namespaces)}
}

// knownVerbs parses names of verbs. It ignores unknown names.
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

// kindFor returns the kind of token that gives a verb.
func kindFor(v access.Verb) string {
	switch v {
	case access.WorkerCall:
		return store.TokenWorker
	case access.NodeCall:
		return store.TokenNode
	case access.WorkerJoin:
		return store.TokenInvite
	}
	return store.TokenAPI
}

// withoutToken gives a call without a token the rights of a program on the node's machine. If the call is
// passed on, the other node treats it as a call without a token.
func withoutToken(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), heldKey{}, &held{p: localCaller}))
}

// Rights returns the rights of the caller of a request, and the instant at which they were read, by the
// store's clock. It returns nil if no gate has checked the request.
func Rights(ctx context.Context) (*access.Principal, dag.Micros) {
	if h := heldIn(ctx); h != nil {
		return h.p, h.now
	}
	return nil, 0
}

// Identity returns the name of the user or service on whose behalf a call is made. It is "" if the caller
// is neither. The name of a token is free text and proves nothing.
func Identity(ctx context.Context) string {
	p, _ := Rights(ctx)
	if p == nil || p.Kind != access.User && p.Kind != access.Service {
		return ""
	}
	return p.Name
}
