package layout

import (
	"cmp"
	"math"
	"slices"
)

// Graph is the input of a layout: the tasks that t needs are Needs[Off[t]:Off[t+1]]. Tasks are numbered
// from 0. A Graph has no cycle.
type Graph struct {
	Off   []int32
	Needs []int32
}

// Len returns the number of tasks.
func (g *Graph) Len() int { return max(0, len(g.Off)-1) }

// needs lists the tasks that t needs.
func (g *Graph) needs(t int) []int32 { return g.Needs[g.Off[t]:g.Off[t+1]] }

// Layout says where each task is.
type Layout struct {
	Columns int
	Column  []int32 // the column of each task, from 0
	// Y is the upper edge of the task, in quarters of a pixel, from 0. Two tasks of one column are at least
	// RowHeight apart.
	Y []int32
}

// Sizes of a drawing, in pixels.
const (
	ColumnWidth = 220
	RowHeight   = 40
	quarters    = 4
)

const (
	// jumpColumns is the greatest length of an edge that reserves places in the columns that it passes.
	jumpColumns = 8
	// orderPasses and placePasses are the numbers of passes that improve the order and the heights.
	orderPasses = 8
	placePasses = 6
	// rowsMin is the least bound on the entries of a column. See rowsOf.
	rowsMin = 48
)

// Place computes the layout of a graph. It takes about a second for 100,000 tasks.
func Place(g *Graph) *Layout {
	n := g.Len()
	l := &Layout{Column: make([]int32, n), Y: make([]int32, n)}
	if n == 0 {
		return l
	}
	l.columns(g)
	w := newWeb(g, l)
	for pass := range orderPasses {
		w.order(pass%2 == 0)
	}
	w.stack()
	for pass := range placePasses {
		w.place(pass%2 == 0)
	}
	w.heights(l)
	return l
}

// columns gives each task the length of the longest path to it, then breaks columns that are too high.
func (l *Layout) columns(g *Graph) {
	n := g.Len()
	depth, missing := make([]int32, n), make([]int32, n)
	after := dependents(g)
	queue := make([]int32, 0, n)
	for t := range n {
		if missing[t] = int32(len(g.needs(t))); missing[t] == 0 {
			queue = append(queue, int32(t))
		}
	}
	for head := 0; head < len(queue); head++ {
		t := queue[head]
		for _, d := range after.needs(int(t)) {
			depth[d] = max(depth[d], depth[t]+1)
			if missing[d]--; missing[d] == 0 {
				queue = append(queue, d)
			}
		}
	}
	deepest := slices.Max(depth)
	count := make([]int32, deepest+1)
	for _, d := range depth {
		count[d]++
	}
	rows := int32(rowsOf(n))
	first, next := make([]int32, deepest+1), int32(0)
	for d, c := range count {
		first[d] = next
		next += (c + rows - 1) / rows
	}
	l.Columns = int(next)
	seen := make([]int32, deepest+1)
	for t := range n {
		d := depth[t]
		// All parts get the same number of tasks, so that the last column is not nearly empty.
		parts := (count[d] + rows - 1) / rows
		share := (count[d] + parts - 1) / parts
		l.Column[t] = first[d] + seen[d]/share
		seen[d]++
	}
}

// rowsOf bounds the entries of a column: its tasks, and the positions that are reserved for edges across it.
// A higher column is broken into several ones. With this bound, a drawing of independent tasks is 1.6 times
// as wide as high.
func rowsOf(n int) int { return max(rowsMin, int(math.Sqrt(float64(n)*ColumnWidth/RowHeight/1.6))) }

// dependents returns the graph with its edges reversed.
func dependents(g *Graph) *Graph {
	n := g.Len()
	r := &Graph{Off: make([]int32, n+1), Needs: make([]int32, len(g.Needs))}
	for _, p := range g.Needs {
		r.Off[p+1]++
	}
	for t := range n {
		r.Off[t+1] += r.Off[t]
	}
	fill := slices.Clone(r.Off[:n])
	for t := range n {
		for _, p := range g.needs(t) {
			r.Needs[fill[p]] = int32(t)
			fill[p]++
		}
	}
	return r
}

// web is the graph with a node for each reserved position. Every edge goes from one column to the next.
type web struct {
	tasks   int
	up      *Graph // for each node, its neighbours in the previous column
	down    *Graph
	columns [][]int32 // the nodes of each column, in order
	at      []int32   // for each node, its index in its column
	y       []float64 // for each node, its position in rows
}

type edge struct{ from, to int32 }

func newWeb(g *Graph, l *Layout) *web {
	n := g.Len()
	column, rows := slices.Clone(l.Column), rowsOf(n)
	var edges []edge
	holds := make([]int, l.Columns) // number of reserved positions of each column
	for t := range n {
		for _, p := range g.needs(t) {
			passed := holds[column[p]+1 : column[t]]
			if len(passed) >= jumpColumns || len(passed) > 0 && slices.Max(passed) >= rows {
				continue
			}
			from := p
			for c := column[p] + 1; c < column[t]; c++ {
				held := int32(len(column))
				holds[c]++
				column = append(column, c)
				edges = append(edges, edge{from, held})
				from = held
			}
			edges = append(edges, edge{from, int32(t)})
		}
	}
	w := &web{tasks: n, columns: make([][]int32, l.Columns), at: make([]int32, len(column)), y: make([]float64, len(column))}
	w.up = neighbours(len(column), edges)
	w.down = dependents(w.up)
	for node, c := range column {
		w.at[node] = int32(len(w.columns[c]))
		w.columns[c] = append(w.columns[c], int32(node))
	}
	return w
}

func neighbours(n int, edges []edge) *Graph {
	g := &Graph{Off: make([]int32, n+1), Needs: make([]int32, len(edges))}
	for _, e := range edges {
		g.Off[e.to+1]++
	}
	for t := range n {
		g.Off[t+1] += g.Off[t]
	}
	fill := slices.Clone(g.Off[:n])
	for _, e := range edges {
		g.Needs[fill[e.to]] = e.from
		fill[e.to]++
	}
	return g
}

// order sorts each column by the mean position of the neighbours in the column before, or after.
func (w *web) order(forward bool) {
	type keyed struct {
		mean float64
		node int32
	}
	var keys []keyed
	w.each(forward, func(nodes []int32, beside *Graph) {
		keys = keys[:0]
		for i, v := range nodes {
			mean := float64(i)
			if near := beside.needs(int(v)); len(near) > 0 {
				sum := int64(0)
				for _, u := range near {
					sum += int64(w.at[u])
				}
				mean = float64(sum) / float64(len(near))
			}
			keys = append(keys, keyed{mean, v})
		}
		slices.SortStableFunc(keys, func(a, b keyed) int { return cmp.Compare(a.mean, b.mean) })
		for i, k := range keys {
			nodes[i], w.at[k.node] = k.node, int32(i)
		}
	})
}

// stack gives the nodes of each column the heights of their order.
func (w *web) stack() {
	for _, nodes := range w.columns {
		for i, v := range nodes {
			w.y[v] = float64(i)
		}
	}
}

// each visits the columns from the second to the last, or from the last but one to the first.
func (w *web) each(forward bool, f func(nodes []int32, beside *Graph)) {
	if forward {
		for c := 1; c < len(w.columns); c++ {
			f(w.columns[c], w.up)
		}
		return
	}
	for c := len(w.columns) - 2; c >= 0; c-- {
		f(w.columns[c], w.down)
	}
}

// place moves the nodes of each column to the mean height of their neighbours. Order and distance are kept:
// nodes that would overlap form a block, which is placed at the mean of the heights that its nodes would
// have.
func (w *web) place(forward bool) {
	type block struct {
		sum float64
		n   int
	}
	var blocks []block
	w.each(forward, func(nodes []int32, beside *Graph) {
		blocks = blocks[:0]
		for i, v := range nodes {
			want := w.y[v]
			if near := beside.needs(int(v)); len(near) > 0 {
				sum := 0.0
				for _, u := range near {
					sum += w.y[u]
				}
				want = sum / float64(len(near))
			}
			blocks = append(blocks, block{want - float64(i), 1})
			for len(blocks) > 1 {
				a, b := blocks[len(blocks)-2], blocks[len(blocks)-1]
				if a.sum/float64(a.n) <= b.sum/float64(b.n) {
					break
				}
				blocks = append(blocks[:len(blocks)-2], block{a.sum + b.sum, a.n + b.n})
			}
		}
		i := 0
		for _, b := range blocks {
			top := b.sum / float64(b.n)
			for range b.n {
				w.y[nodes[i]] = top + float64(i)
				i++
			}
		}
	})
}

// heights converts rows to quarters of a pixel, the first at 0. After rounding, two tasks must still be at
// least one row apart.
func (w *web) heights(l *Layout) {
	least := math.Inf(1)
	for t := range w.tasks {
		least = min(least, w.y[t])
	}
	const row = RowHeight * quarters
	for _, nodes := range w.columns {
		last := int32(math.MinInt32 / 2)
		for _, v := range nodes {
			if int(v) >= w.tasks {
				continue
			}
			last = max(int32(math.Round(float64((w.y[v]-least)*row))), last+row)
			l.Y[v] = last
		}
	}
}
