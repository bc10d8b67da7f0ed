package layout

// Change says how a task or an edge differs between two graphs.
type Change uint8

// The changes. Their numbers are part of the packed form.
const (
	Same Change = iota
	Added
	Removed
	Changed // only tasks can have this state
)

// Union has the tasks and edges of two graphs, joined by the names of the tasks. Those of the newer one come
// first.
type Union struct {
	Graph
	Newer  []int32 // task of each node in the newer graph; -1 if there is none
	Older  []int32
	Change []Change // for each node: Same, Added or Removed
	Edge   []Change // for each edge of Graph.Needs: Same, Added or Removed
}

// Join joins two graphs. name gives the names of tasks; they are unique in each graph. Edges that only the
// older graph has are left out if the union would have a cycle with them.
func Join(newer, older *Graph, newName, oldName func(t int) string) *Union {
	u := &Union{}
	at := make(map[string]int32, newer.Len())
	for t := range newer.Len() {
		at[newName(t)] = int32(t)
		u.Newer, u.Older, u.Change = append(u.Newer, int32(t)), append(u.Older, -1), append(u.Change, Added)
	}
	nodes := make([]int32, older.Len()) // node of each task of the older graph
	for t := range older.Len() {
		n, both := at[oldName(t)]
		if !both {
			n = int32(len(u.Newer))
			u.Newer, u.Older, u.Change = append(u.Newer, -1), append(u.Older, -1), append(u.Change, Removed)
		} else {
			u.Change[n] = Same
		}
		nodes[t], u.Older[n] = n, int32(t)
	}
	gone := func(n int32) bool { return u.Change[n] == Removed }
	for _, keeps := range []func(from, to int32) bool{
		func(_, _ int32) bool { return true },
		func(from, to int32) bool { return gone(from) || gone(to) },
		func(_, to int32) bool { return gone(to) }, // no task of the newer graph needs a removed task, so there is no cycle
	} {
		if u.edges(newer, older, nodes, keeps); !u.isCircular() {
			break
		}
	}
	return u
}

// edges takes the edges of both graphs; edges that only the older graph has are taken if they are kept.
func (u *Union) edges(newer, older *Graph, nodes []int32, keeps func(from, to int32) bool) {
	u.Graph, u.Edge = Graph{Off: []int32{0}}, nil
	for n := range u.Newer {
		had := map[int32]bool{}
		if t := u.Older[n]; t >= 0 {
			for _, p := range older.needs(int(t)) {
				had[nodes[p]] = true
			}
		}
		if t := u.Newer[n]; t >= 0 {
			for _, p := range newer.needs(int(t)) {
				change := Added
				if had[p] {
					change = Same
				}
				delete(had, p)
				u.Needs, u.Edge = append(u.Needs, p), append(u.Edge, change)
			}
		}
		if t := u.Older[n]; t >= 0 {
			for _, p := range older.needs(int(t)) {
				if from := nodes[p]; had[from] && keeps(from, int32(n)) {
					u.Needs, u.Edge = append(u.Needs, from), append(u.Edge, Removed)
				}
			}
		}
		u.Off = append(u.Off, int32(len(u.Needs)))
	}
}

func (u *Union) isCircular() bool {
	for _, ok := range reached(&u.Graph, dependents(&u.Graph)) {
		if !ok {
			return true
		}
	}
	return false
}
