package layout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// folds folds a graph of named tasks and writes each node as LABEL=members<needs.
func folds(g *Graph, names []string, open ...string) string {
	name := func(t int) string { return names[t] }
	f := Fold(g, Folding{Name: name, Plain: func(t int) bool { return !strings.HasPrefix(names[t], "!") },
		Open: func(k FoldKind, first int) bool {
			return slices.Contains(open, fmt.Sprintf("%s:%s", FoldKinds()[k-1], names[first]))
		}})
	var out []string
	for n := range f.Len() {
		out = append(out, fmt.Sprintf("%s=%v<%v", f.Label(n, name), f.Members[n], f.needs(n)))
	}
	return strings.Join(out, " ")
}

func TestFold(t *testing.T) {
	fan := graph(nil, []int32{0}, []int32{0}, []int32{0}, []int32{0}, []int32{1, 2, 3, 4})
	line := graph(nil, []int32{0}, []int32{1}, []int32{2})
	lanes := graph(nil, []int32{0}, []int32{1}, []int32{2}, []int32{0}, []int32{4}, []int32{5}, []int32{0}, []int32{7}, []int32{8}, []int32{0}, []int32{10}, []int32{11}, []int32{3, 6, 9, 12})
	for _, c := range []struct {
		name  string
		g     *Graph
		names string
		open  []string
		want  string
	}{
		{"tasks that are alike", fan, "a load_1 load_2 load_3 load_4 z", nil, "a=[0]<[] load_*=[1 2 3 4]<[0] z=[5]<[1]"},
		{"an open group", fan, "a load_1 load_2 load_3 load_4 z", []string{"alike:load_1"},
			"a=[0]<[] load_1=[1]<[0] load_2=[2]<[0] load_3=[3]<[0] load_4=[4]<[0] z=[5]<[1 2 3 4]"},
		{"a chain", line, "a b c d", nil, "a → … → d=[0 1 2 3]<[]"},
		{"a chain that is open", line, "a b c d", []string{"chain:a"}, "a=[0]<[] b=[1]<[0] c=[2]<[1] d=[3]<[2]"},
		{"a chain up to a task that must be seen", line, "!a b c d", nil, "!a=[0]<[] b → … → d=[1 2 3]<[0]"},
		{"chains that are alike", lanes, "!s a1 a2 a3 b1 b2 b3 c1 c2 c3 d1 d2 d3 !e", nil, "!s=[0]<[] a1, …=[1 2 3 4 5 6 7 8 9 10 11 12]<[0] !e=[13]<[1]"},
		{"names with a first part", graph(nil, []int32{0}, []int32{1}, []int32{2}), "x.a x.b x.c !y", nil, "x.*=[0 1 2]<[] !y=[3]<[0]"},
		{"a part whose tasks lead out and in again", graph(nil, []int32{0}, []int32{1}, []int32{2}), "x.a !y x.b x.c", nil, "x.a=[0]<[] !y=[1]<[0] x.b=[2]<[1] x.c=[3]<[2]"},
		{"too few", graph(nil, nil, nil), "a b c", nil, "a=[0]<[] b=[1]<[] c=[2]<[]"},
	} {
		if got := folds(c.g, strings.Fields(c.names), c.open...); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestFoldedGraphsAreSound: whatever is folded, each task is in one node, each edge between two nodes is
// kept, and the result can be drawn.
func TestFoldedGraphsAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "tasks")
		needs, names := make([][]int32, n), make([]string, n)
		for i := range n {
			for p := range i {
				if rapid.IntRange(0, 9).Draw(t, "edge") == 0 {
					needs[i] = append(needs[i], int32(p))
				}
			}
			names[i] = fmt.Sprintf("%c.%d", 'a'+rapid.IntRange(0, 3).Draw(t, "part"), i)
		}
		g := graph(needs...)
		f := Fold(g, Folding{Name: func(t int) string { return names[t] }, Plain: func(int) bool { return true }, Open: func(FoldKind, int) bool { return false }})
		at := make([]int, n)
		var all []int32
		for node, members := range f.Members {
			for _, m := range members {
				at[m] = node
			}
			all = append(all, members...)
		}
		if slices.Sort(all); len(all) != n || len(slices.Compact(all)) != n {
			t.Fatalf("members %v", f.Members)
		}
		for task := range n {
			for _, p := range g.needs(task) {
				if at[p] != at[task] && !slices.Contains(f.needs(at[task]), int32(at[p])) {
					t.Fatalf("the edge from %d to %d is lost", p, task)
				}
			}
		}
		if err := sound(&f.Graph, Place(&f.Graph)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestJoin(t *testing.T) {
	join := func(newer, older *Graph, newNames, oldNames string) (*Union, string) {
		ns, os := strings.Fields(newNames), strings.Fields(oldNames)
		u := Join(newer, older, func(t int) string { return ns[t] }, func(t int) string { return os[t] })
		var out []string
		for n := range u.Len() {
			name := ""
			if u.Newer[n] >= 0 {
				name = ns[u.Newer[n]]
			} else {
				name = os[u.Older[n]]
			}
			var needs []string
			for i := u.Off[n]; i < u.Off[n+1]; i++ {
				needs = append(needs, fmt.Sprintf("%d%c", u.Needs[i], "=+-"[u.Edge[i]]))
			}
			out = append(out, fmt.Sprintf("%c%s%v", "=+-"[u.Change[n]], name, needs))
		}
		return u, strings.Join(out, " ")
	}
	for _, c := range []struct {
		newer, older       *Graph
		newNames, oldNames string
		want               string
	}{
		{graph(nil, []int32{0}), graph(nil, []int32{0}), "a b", "a b", "=a[] =b[0=]"},
		{graph(nil, []int32{0}, []int32{0}), graph(nil, []int32{0}, []int32{1}), "a b n", "a b old", "=a[] =b[0=] +n[0+] -old[1-]"},
		{graph(nil, nil), graph(nil, []int32{0}), "a b", "a b", "=a[] =b[0-]"},
		// The edge was reversed. The old edge would close a cycle, so it is not shown.
		{graph([]int32{1}, nil), graph(nil, []int32{0}), "a b", "a b", "=a[1+] =b[]"},
		// A removed task would close a cycle, so only the edges to the tasks that it needs are shown.
		{graph([]int32{1}, nil), graph(nil, []int32{2}, []int32{0}), "a b", "a b r", "=a[1+] =b[] -r[0-]"},
	} {
		u, got := join(c.newer, c.older, c.newNames, c.oldNames)
		if got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
		if err := sound(&u.Graph, Place(&u.Graph)); err != nil {
			t.Error(err)
		}
	}
}
