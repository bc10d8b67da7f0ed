package layout

import (
	"encoding/binary"
	"slices"
	"strings"
)

// FoldKind says why tasks are drawn as one node.
type FoldKind uint8

// The kinds of nodes of a folded graph. Their order is that of FoldKinds.
const (
	Single FoldKind = iota // a single task
	Chain                  // a chain of tasks, each of which needs only the previous one
	Alike                  // tasks, or chains, with the same needs and the same dependents
	Named                  // tasks whose names begin with the same part
)

// FoldKinds names the kinds of groups.
func FoldKinds() []string { return []string{"chain", "alike", "named"} }

// Folded is a graph in which each node stands for one or more tasks.
type Folded struct {
	Graph
	Members [][]int32 // tasks of each node, in order
	Kind    []FoldKind
}

// Folding says how to fold.
type Folding struct {
	Name  func(t int) string
	Plain func(t int) bool // reports whether a task may be in a chain or in a group of like tasks
	// Open reports whether a person has opened the group of a kind that begins with a task, so that the group is
	// not formed.
	Open func(k FoldKind, first int) bool
}

// chainMin, alikeMin and namedMin are the least numbers of nodes of a group.
const chainMin, alikeMin, namedMin = 3, 4, 3

// Fold makes a graph with fewer nodes. It first joins tasks by the first part of their names, then chains,
// then tasks and chains that are alike. A group that would make the graph circular is not formed.
func Fold(g *Graph, by Folding) *Folded {
	f := &Folded{Graph: *g, Members: make([][]int32, g.Len()), Kind: make([]FoldKind, g.Len())}
	for t := range f.Members {
		f.Members[t] = []int32{int32(t)}
	}
	return f.named(by).chains(by).alike(by)
}

// prefixOf returns the first part of a name with its separator, or "" if the name has only one part.
func prefixOf(name string) string {
	best := ""
	for _, sep := range []string{".", "/", ":", "__"} {
		if i := strings.Index(name, sep); i > 0 && i+len(sep) < len(name) && (best == "" || i+len(sep) < len(best)) {
			best = name[:i+len(sep)]
		}
	}
	return best
}

// named joins tasks by the first part of their names.
func (f *Folded) named(by Folding) *Folded {
	into := f.apart()
	first := map[string]int32{}
	size := map[int32]int{}
	for t := range into {
		prefix := prefixOf(by.Name(t))
		if prefix == "" {
			continue
		}
		head, known := first[prefix]
		if !known {
			head = int32(t)
			first[prefix] = head
		}
		into[t] = head
		size[head]++
	}
	for t, head := range into {
		if size[head] < namedMin || by.Open(Named, int(head)) {
			into[t] = int32(t)
		}
	}
	// Nodes that form a cycle in the joined graph are not joined.
	joined := f.join(into, Named)
	circular := joined.circular()
	at := f.places(into)
	for t := range into {
		if circular[at[t]] {
			into[t] = int32(t)
		}
	}
	return f.join(into, Named)
}

// chains joins sequences of tasks. Each task of a sequence needs only the previous one, which has no other
// dependent.
func (f *Folded) chains(by Folding) *Folded {
	into, after := f.apart(), dependents(&f.Graph)
	fits := func(n int) bool { return f.Kind[n] == Single && by.Plain(int(f.Members[n][0])) }
	follows := func(n int) (int, bool) { // the node before n in a chain
		if needs := f.needs(n); len(needs) == 1 && fits(n) {
			if p := int(needs[0]); fits(p) && len(after.needs(p)) == 1 {
				return p, true
			}
		}
		return 0, false
	}
	for n := range into {
		if _, inside := follows(n); inside || !fits(n) {
			continue
		}
		run := []int32{int32(n)}
		for at := n; len(after.needs(at)) == 1; {
			next := int(after.needs(at)[0])
			if _, ok := follows(next); !ok {
				break
			}
			run, at = append(run, int32(next)), next
		}
		if len(run) < chainMin || by.Open(Chain, int(f.Members[n][0])) {
			continue
		}
		for _, m := range run {
			into[m] = int32(n)
		}
	}
	return f.join(into, Chain)
}

// alike joins nodes of one kind and size that have the same needs and the same dependents. This includes
// nodes with neither.
func (f *Folded) alike(by Folding) *Folded {
	into, after := f.apart(), dependents(&f.Graph)
	groups := map[string][]int32{}
	var order []string
	for n := range into {
		if f.Kind[n] == Named || f.Kind[n] == Alike || !by.Plain(int(f.Members[n][0])) {
			continue
		}
		key := []byte{byte(f.Kind[n])}
		key = binary.AppendUvarint(key, uint64(len(f.Members[n])))
		for _, list := range [][]int32{f.needs(n), after.needs(n)} {
			list = slices.Clone(list)
			slices.Sort(list)
			key = binary.AppendUvarint(key, uint64(len(list)))
			for _, p := range list {
				key = binary.AppendUvarint(key, uint64(p))
			}
		}
		if groups[string(key)] == nil {
			order = append(order, string(key))
		}
		groups[string(key)] = append(groups[string(key)], int32(n))
	}
	for _, key := range order {
		g := groups[key]
		if len(g) < alikeMin || by.Open(Alike, int(f.Members[g[0]][0])) {
			continue
		}
		for _, n := range g {
			into[n] = g[0]
		}
	}
	return f.join(into, Alike)
}

// apart returns an assignment that joins no nodes.
func (f *Folded) apart() []int32 {
	into := make([]int32, f.Len())
	for n := range into {
		into[n] = int32(n)
	}
	return into
}

// places gives new numbers to the nodes that remain after a join. into holds, by node, the first node of its
// group.
func (f *Folded) places(into []int32) []int32 {
	at, next := make([]int32, len(into)), int32(0)
	for n, head := range into {
		if int(head) == n {
			at[n] = next
			next++
		}
	}
	for n, head := range into {
		at[n] = at[head]
	}
	return at
}

// join makes one node of the nodes with the same head. The first node of a group comes first in the order.
func (f *Folded) join(into []int32, kind FoldKind) *Folded {
	at := f.places(into)
	size := 0
	for _, a := range at {
		size = max(size, int(a)+1)
	}
	if size == f.Len() {
		return f
	}
	out := &Folded{Members: make([][]int32, size), Kind: make([]FoldKind, size)}
	needs := make([][]int32, size)
	for n, head := range into {
		a := at[n]
		if int(head) == n {
			out.Kind[a] = f.Kind[n]
		} else {
			out.Kind[a] = kind
		}
		out.Members[a] = append(out.Members[a], f.Members[n]...)
		for _, p := range f.needs(n) {
			if b := at[p]; b != a {
				needs[a] = append(needs[a], b)
			}
		}
	}
	out.Off = make([]int32, 1, size+1)
	for a := range needs {
		slices.Sort(needs[a])
		out.Needs = append(out.Needs, slices.Compact(needs[a])...)
		out.Off = append(out.Off, int32(len(out.Needs)))
	}
	return out
}

// circular marks the nodes that are in a cycle or between two cycles. These are the nodes that a topological
// order from the front and one from the back both do not reach.
func (f *Folded) circular() []bool {
	back := dependents(&f.Graph)
	ahead, behind := reached(&f.Graph, back), reached(back, &f.Graph)
	out := make([]bool, f.Len())
	for n := range out {
		out[n] = !ahead[n] && !behind[n]
	}
	return out
}

// reached marks the nodes whose needs, direct or not, have an order.
func reached(g, after *Graph) []bool {
	n := g.Len()
	missing, done := make([]int32, n), make([]bool, n)
	var queue []int32
	for t := range n {
		if missing[t] = int32(len(g.needs(t))); missing[t] == 0 {
			queue = append(queue, int32(t))
		}
	}
	for head := 0; head < len(queue); head++ {
		t := queue[head]
		done[t] = true
		for _, d := range after.needs(int(t)) {
			if missing[d]--; missing[d] == 0 {
				queue = append(queue, d)
			}
		}
	}
	return done
}

// Label names a node by its tasks.
func (f *Folded) Label(n int, name func(t int) string) string {
	m := f.Members[n]
	first := name(int(m[0]))
	switch f.Kind[n] {
	case Chain:
		return first + " → … → " + name(int(m[len(m)-1]))
	case Alike, Named:
		prefix := first
		for _, t := range m[1:] {
			prefix = prefix[:shared(prefix, name(int(t)))]
		}
		if f.Kind[n] == Named {
			prefix = prefixOf(first)
		}
		if prefix = strings.ToValidUTF8(prefix, ""); prefix == "" {
			return first + ", …"
		}
		return prefix + "*"
	}
	return first
}
