package layout

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden drawings")

// graph makes a Graph of lists of needs.
func graph(needs ...[]int32) *Graph {
	g := &Graph{Off: []int32{0}}
	for _, list := range needs {
		g.Needs = append(g.Needs, list...)
		g.Off = append(g.Off, int32(len(g.Needs)))
	}
	return g
}

// layered returns a graph of n tasks in layers of the given width. Most tasks need one or two tasks of the
// previous layer, and some need a task of any earlier layer.
func layered(n, width int) *Graph {
	state := uint32(7)
	below := func(k int) int {
		state = state*1664525 + 1013904223
		return int(state>>8) % k
	}
	needs := make([][]int32, n)
	for t := width; t < n; t++ {
		layer := t / width
		for range 1 + below(2) {
			from := layer - 1
			if below(10) == 0 {
				from = below(layer)
			}
			if p := int32(from*width + below(width)); !slices.Contains(needs[t], p) {
				needs[t] = append(needs[t], p)
			}
		}
	}
	return graph(needs...)
}

// sound checks what every layout promises.
func sound(g *Graph, l *Layout) error {
	n := g.Len()
	if len(l.Column) != n || len(l.Y) != n {
		return fmt.Errorf("%d tasks, %d columns, %d heights", n, len(l.Column), len(l.Y))
	}
	rows := map[int32][]int32{}
	least := int32(0)
	for t := range n {
		if l.Column[t] < 0 || int(l.Column[t]) >= l.Columns {
			return fmt.Errorf("task %d is in column %d of %d", t, l.Column[t], l.Columns)
		}
		for _, p := range g.needs(t) {
			if l.Column[p] >= l.Column[t] {
				return fmt.Errorf("task %d is in column %d, needs %d in column %d", t, l.Column[t], p, l.Column[p])
			}
		}
		if l.Y[t] < 0 {
			return fmt.Errorf("task %d is at %d", t, l.Y[t])
		}
		rows[l.Column[t]] = append(rows[l.Column[t]], l.Y[t])
		if t == 0 {
			least = l.Y[t]
		}
		least = min(least, l.Y[t])
	}
	if n > 0 && (least != 0 || len(rows) != l.Columns) {
		return fmt.Errorf("the first is at %d; %d of %d columns are used", least, len(rows), l.Columns)
	}
	for c, ys := range rows {
		slices.Sort(ys)
		for i := 1; i < len(ys); i++ {
			if ys[i]-ys[i-1] < RowHeight*quarters {
				return fmt.Errorf("two tasks of column %d are at %d and %d", c, ys[i-1], ys[i])
			}
		}
	}
	return nil
}

func TestLayoutIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 120).Draw(t, "tasks")
		needs := make([][]int32, n)
		for i := 1; i < n; i++ {
			needs[i] = rapid.SliceOfNDistinct(rapid.Int32Range(0, int32(i-1)), 0, min(i, 5), rapid.ID).Draw(t, "needs")
		}
		// The numbers of the tasks are random, because the order of a file need not be a topological order.
		number := rapid.Permutation(ids(n)).Draw(t, "order")
		mixed := make([][]int32, n)
		for i, list := range needs {
			for _, p := range list {
				mixed[number[i]] = append(mixed[number[i]], number[p])
			}
		}
		g := graph(mixed...)
		l := Place(g)
		if err := sound(g, l); err != nil {
			t.Fatal(err)
		}
		if again := Place(g); !reflect.DeepEqual(l, again) {
			t.Fatal("the same graph got another layout")
		}
	})
}

func ids(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

func TestLargeLayouts(t *testing.T) {
	chain := make([][]int32, 100_000)
	for i := 1; i < len(chain); i++ {
		chain[i] = []int32{int32(i - 1)}
	}
	fan := make([][]int32, 100_000)
	for i := 1; i < len(fan)-1; i++ {
		fan[i] = []int32{0}
	}
	fan[len(fan)-1] = ids(len(fan) - 1)
	for name, g := range map[string]*Graph{"layers": layered(100_000, 2000), "chain": graph(chain...), "fan": graph(fan...), "alone": graph(make([][]int32, 100_000)...)} {
		t.Run(name, func(t *testing.T) {
			l := Place(g)
			if err := sound(g, l); err != nil {
				t.Fatal(err)
			}
			if high := int(slices.Max(l.Y)) / quarters / RowHeight; high > 4*rowsOf(g.Len()) {
				t.Errorf("the drawing has %d rows, a column has %d at most", high, rowsOf(g.Len()))
			}
		})
	}
}

// draw shows a layout as text: columns from left to right, one line per row.
func draw(g *Graph, l *Layout) string {
	cells := map[[2]int32]string{}
	rows := int32(0)
	for t := range g.Len() {
		row := l.Y[t] / (RowHeight * quarters / 2)
		cells[[2]int32{row, l.Column[t]}] = fmt.Sprintf("%d%v", t, g.needs(t))
		rows = max(rows, row)
	}
	var b strings.Builder
	for r := range rows + 1 {
		line := ""
		for c := range int32(l.Columns) {
			line += fmt.Sprintf("%-12s", cells[[2]int32{r, c}])
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

func TestGoldenLayouts(t *testing.T) {
	tests := map[string]*Graph{
		"one":      graph(nil),
		"chain":    graph(nil, []int32{0}, []int32{1}, []int32{2}),
		"diamond":  graph(nil, []int32{0}, []int32{0}, []int32{1, 2}),
		"crossing": graph(nil, nil, nil, []int32{2}, []int32{1}, []int32{0}),
		"long":     graph(nil, []int32{0}, []int32{1}, []int32{2, 0}, nil, []int32{4, 3}),
		"two":      graph(nil, []int32{0}, nil, []int32{2}, []int32{2}, []int32{1}),
		"layered":  layered(24, 4),
	}
	for name, g := range tests {
		t.Run(name, func(t *testing.T) {
			file, got := filepath.Join("testdata", name+".golden"), draw(g, Place(g))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// crossings counts the pairs of edges between neighbouring columns that cross.
func crossings(g *Graph, l *Layout) (n int) {
	type line struct{ from, to, column int32 }
	var lines []line
	for t := range g.Len() {
		for _, p := range g.needs(t) {
			if l.Column[t]-l.Column[p] == 1 {
				lines = append(lines, line{l.Y[p], l.Y[t], l.Column[t]})
			}
		}
	}
	for i, a := range lines {
		for _, b := range lines[:i] {
			if a.column == b.column && (a.from-b.from)*(a.to-b.to) < 0 {
				n++
			}
		}
	}
	return n
}

func TestOrderAvoidsCrossings(t *testing.T) {
	g := layered(300, 15)
	l := Place(g)
	plain := &Layout{Columns: l.Columns, Column: l.Column, Y: ids(g.Len())} // in the order of the file
	if before, after := crossings(g, plain), crossings(g, l); after*2 > before {
		t.Errorf("%d crossings, %d in the order of the file", after, before)
	}
}

func TestPack(t *testing.T) {
	g := graph(nil, []int32{0}, []int32{0}, []int32{1, 2})
	l := Place(g)
	names := []string{"load_a", "load_b", "löschen", "end"}
	b := Pack(g, l, []string{"work", "wait"}, func(t int) Task { return Task{names[t], uint8(t % 2)} })
	r := bytes.NewReader(b)
	var head struct {
		Magic                 [4]byte
		Tasks, Edges, Columns uint32
		Kinds                 uint8
	}
	if err := binary.Read(r, binary.LittleEndian, &head); err != nil {
		t.Fatal(err)
	}
	if string(head.Magic[:]) != "SKL1" || head.Tasks != 4 || head.Edges != 4 || int(head.Columns) != l.Columns || head.Kinds != 2 {
		t.Errorf("head %+v", head)
	}
	text := func() string {
		var s []byte
		for c := byte(1); c != 0; {
			c, _ = r.ReadByte()
			s = append(s, c)
		}
		return string(s[:len(s)-1])
	}
	if k := text() + text(); k != "workwait" {
		t.Errorf("kinds %q", k)
	}
	column, y := int64(0), int64(0)
	for i := range 4 {
		dc, _ := binary.ReadVarint(r)
		dy, _ := binary.ReadVarint(r)
		kind, _ := r.ReadByte()
		if column, y = column+dc, y+dy; column != int64(l.Column[i]) || y != int64(l.Y[i]) || int(kind) != i%2 {
			t.Errorf("task %d: column %d, y %d, kind %d", i, column, y, kind)
		}
	}
	for i := range 4 {
		k, _ := binary.ReadUvarint(r)
		var needs []int32
		for range k {
			d, _ := binary.ReadVarint(r)
			needs = append(needs, int32(i)-int32(d))
		}
		if !slices.Equal(needs, g.needs(i)) {
			t.Errorf("task %d needs %v", i, needs)
		}
	}
	before := ""
	for i := range 4 {
		same, _ := binary.ReadUvarint(r)
		if before = before[:same] + text(); before != names[i] {
			t.Errorf("task %d is %q", i, before)
		}
	}
	if r.Len() != 0 {
		t.Errorf("%d bytes too many", r.Len())
	}
}

func BenchmarkPlace(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		g := layered(n, n/50)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				Place(g)
			}
		})
	}
}
