package access

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"skein.dev/skein/internal/dag"
)

// Kind is the kind of a principal.
type Kind uint8

// The kinds of principals. The zero Kind is no kind: such a principal has only the public verbs.
const (
	_ Kind = iota
	User
	Service
	Worker  // may call only the protocol of workers
	Node    // may call only the other nodes of the cluster
	Local   // a program on the node's machine that uses no token: it also has the verbs of workers and nodes
	Invited // a worker that shows an invitation: it may do nothing but join
)

var kindNames = [...]string{"none", "user", "service", "worker", "node", "local", "invited"}

// String returns the kind's name.
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return kindNames[0]
	}
	return kindNames[k]
}

// ParseKind returns the kind with a name, if that kind can have bindings. It returns the zero Kind for any
// other text.
func ParseKind(name string) Kind {
	for _, k := range [...]Kind{User, Service} {
		if kindNames[k] == name {
			return k
		}
	}
	return 0
}

// Binding gives a role to a principal in one namespace, or Everywhere.
type Binding struct {
	Role      Role
	Namespace string
	Expires   dag.Micros // on the store's clock; 0 means never
}

// Scope narrows the rights of a principal to those of one of its tokens. The zero Scope has no rights.
type Scope struct {
	Verbs      Verbs
	Namespaces []string // the namespaces; all of them if Everywhere is among them
}

// Whole returns the scope of a token with all rights of its principal.
func Whole() Scope { return Scope{Verbs: assignable, Namespaces: []string{Everywhere}} }

// grant is a set of verbs that is valid until an instant.
type grant struct {
	verbs   Verbs
	expires dag.Micros // 0 means never
}

func (g grant) has(v Verb, now dag.Micros) bool {
	return g.verbs.Has(v) && (g.expires == 0 || now < g.expires)
}

// BindingsMax bounds the bindings of one principal.
const BindingsMax = 1000

// Principal is a caller with its rights, as its bindings and the scope of its token give them. A Principal
// does not change. The zero Principal has only the public verbs.
type Principal struct {
	Name string
	Kind Kind
	all  []grant // grants for all namespaces and for the cluster
	in   map[string][]grant
	by   *Principal // the principal has only rights that by also has; nil means no limit
}

// Under returns the principal with only those rights that by also has. If by is nil, it has no rights. A
// principal that is already under another one stays under that one, too.
func (p *Principal) Under(by *Principal) *Principal {
	under := *p
	if by == nil {
		by = &Principal{}
	}
	if p.by != nil {
		by = by.Under(p.by)
	}
	under.by = by
	return &under
}

// NewPrincipal returns a principal with the rights that both its bindings and a scope have. A binding for a
// namespace with an invalid name gives no right. Workers and nodes have no bindings.
func NewPrincipal(kind Kind, name string, bindings []Binding, scope Scope) (*Principal, error) {
	p := &Principal{Name: name, Kind: kind, in: map[string][]grant{}}
	switch {
	case len(bindings) > BindingsMax:
		return nil, fmt.Errorf("%s has %d roles in namespaces, and at most %d take effect; give roles for all namespaces instead", name, len(bindings), BindingsMax)
	case kind == Worker || kind == Node || kind == Invited:
		return p, nil
	}
	wide := slices.Contains(scope.Namespaces, Everywhere)
	for _, b := range bindings {
		g := grant{b.Role.Verbs & scope.Verbs & assignable, b.Expires}
		switch {
		case g.verbs == 0 || CheckNamespace(b.Namespace) != nil:
		case b.Namespace == Everywhere && wide:
			p.all = add(p.all, g)
		case b.Namespace == Everywhere:
			for _, ns := range scope.Namespaces {
				if CheckNamespace(ns) == nil {
					p.in[ns] = add(p.in[ns], g)
				}
			}
		case wide || slices.Contains(scope.Namespaces, b.Namespace):
			p.in[b.Namespace] = add(p.in[b.Namespace], g)
		}
	}
	return p, nil
}

// Only returns the namespace that contains all rights of a principal. It returns false if the principal has
// rights in several namespaces or in none, or has a role in all of them.
func (p *Principal) Only() (namespace string, ok bool) {
	if p == nil || len(p.all) > 0 || len(p.in) != 1 {
		return "", false
	}
	for namespace = range p.in {
	}
	return namespace, true
}

// add adds a grant to a list. It combines grants that expire at the same instant.
func add(to []grant, g grant) []grant {
	for i := range to {
		if to[i].expires == g.expires {
			to[i].verbs |= g.verbs
			return to
		}
	}
	return append(to, g)
}

// Decide reports whether a principal has a verb in a namespace now, by the store's clock. For an object of
// the cluster the namespace is Everywhere, and only bindings for all namespaces apply. Decide denies the zero
// Verb, a nil principal, and an empty namespace.
func Decide(p *Principal, v Verb, namespace string, now dag.Micros) bool {
	if v >= Public {
		return special(p, v)
	}
	if p == nil || namespace == "" || p.by != nil && !Decide(p.by, v, namespace, now) {
		return false
	}
	for i := range p.all {
		if p.all[i].has(v, now) {
			return true
		}
	}
	for _, g := range p.in[namespace] {
		if g.has(v, now) {
			return true
		}
	}
	return false
}

// special decides about the verbs that no role can have.
func special(p *Principal, v Verb) bool {
	switch v {
	case Public:
		return true
	case Self:
		return p != nil && (p.Kind == User || p.Kind == Service || p.Kind == Local)
	case WorkerCall:
		return p != nil && (p.Kind == Worker || p.Kind == Local)
	case NodeCall:
		return p != nil && (p.Kind == Node || p.Kind == Local)
	case WorkerJoin:
		return p != nil && p.Kind == Invited
	}
	return false
}

// Namespaces is a set of namespaces that a list shows. The zero Namespaces is empty.
type Namespaces struct {
	all   bool
	names []string // names of the namespaces in order
}

// All reports whether the set has every namespace.
func (n Namespaces) All() bool { return n.all }

// Names returns the namespaces in order. It returns nothing if the set has every namespace, so a caller must
// call All first.
func (n Namespaces) Names() []string { return n.names }

// Has reports whether a namespace is in the set.
func (n Namespaces) Has(namespace string) bool {
	_, in := slices.BinarySearch(n.names, namespace)
	return n.all || in
}

// Visible returns the namespaces in which a principal has a verb now. A list shows these and no others.
func Visible(p *Principal, v Verb, now dag.Micros) (seen Namespaces) {
	if p == nil || v >= Public {
		return seen
	}
	if slices.ContainsFunc(p.all, func(g grant) bool { return g.has(v, now) }) {
		if p.by != nil {
			return Visible(p.by, v, now)
		}
		seen.all = true
		return seen
	}
	for _, ns := range slices.Sorted(maps.Keys(p.in)) {
		if slices.ContainsFunc(p.in[ns], func(g grant) bool { return g.has(v, now) }) && (p.by == nil || Decide(p.by, v, ns, now)) {
			seen.names = append(seen.names, ns)
		}
	}
	return seen
}

// Can returns the verbs that a principal has now, by namespace. The verbs that it has in all namespaces and
// for the cluster are listed under Everywhere, and not repeated under other namespaces.
func Can(p *Principal, now dag.Micros) map[string]Verbs {
	can := map[string]Verbs{}
	if p == nil {
		return can
	}
	sum := func(grants []grant) (set Verbs) {
		for v := range assignable.All() {
			if slices.ContainsFunc(grants, func(g grant) bool { return g.has(v, now) }) {
				set |= VerbsOf(v)
			}
		}
		return set
	}
	everywhere := sum(p.all)
	for ns, grants := range p.in {
		if set := sum(grants) &^ everywhere; set != 0 {
			can[ns] = set
		}
	}
	if everywhere != 0 {
		can[Everywhere] = everywhere
	}
	if p.by != nil {
		return common(can, Can(p.by, now))
	}
	return can
}

// common returns the rights that are in both sets.
func common(a, b map[string]Verbs) map[string]Verbs {
	both, everywhere := map[string]Verbs{}, a[Everywhere]&b[Everywhere]
	for _, one := range [...]map[string]Verbs{a, b} {
		for ns := range one {
			if set := (a[ns] | a[Everywhere]) & (b[ns] | b[Everywhere]) &^ everywhere; set != 0 {
				both[ns] = set
			}
		}
	}
	if everywhere != 0 {
		both[Everywhere] = everywhere
	}
	return both
}

// Lost reports whether has lacks a right of had. Both are results of Can, and had is the earlier one.
func Lost(had, has map[string]Verbs) bool {
	for ns, verbs := range had {
		if !(has[ns] | has[Everywhere]).Covers(verbs) {
			return true
		}
	}
	return false
}

// Anywhere reports whether a principal has a verb in any namespace now.
func Anywhere(p *Principal, v Verb, now dag.Micros) bool {
	if v >= Public {
		return special(p, v)
	}
	seen := Visible(p, v, now)
	return seen.all || len(seen.names) > 0
}

// MayGive returns an error if a principal may not give a role or a token with some verbs in a namespace. It
// may do so only if it has each of these verbs there. So no principal can give a right that it does not have.
func MayGive(p *Principal, verbs Verbs, namespace string, now dag.Micros) error {
	if err := CheckNamespace(namespace); err != nil {
		return err
	}
	missing := verbs &^ assignable
	for v := range verbs.All() {
		if !Decide(p, v, namespace, now) {
			missing |= VerbsOf(v)
		}
	}
	switch {
	case verbs == 0:
		return errors.New("there is no verb to give; name at least one")
	case missing != 0:
		return fmt.Errorf("you can give only verbs that you have in %s; you do not have %s", place(namespace), missing)
	}
	return nil
}

func place(namespace string) string {
	if namespace == Everywhere {
		return "all namespaces"
	}
	return "the namespace " + namespace
}
