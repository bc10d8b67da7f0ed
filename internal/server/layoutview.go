package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/layout"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// View says how a graph is drawn: unchanged, folded, or joined with the graph of another version.
type View struct {
	Fold    bool     `query:"fold" doc:"Draw chains, tasks that are alike, and tasks whose names begin with the same part (up to ., /, : or __) as one node each."`
	Open    []string `query:"open" maxItems:"100" doc:"With fold: groups that are drawn task by task, as KIND:TASK with the first task of each."`
	Against int32    `query:"against" minimum:"1" maximum:"2147483647" doc:"Also draw the tasks and edges that this version has and the drawn one lacks, and say what differs. Not with fold."`
}

// drawn is a graph to draw, with the other data that its drawing depends on.
type drawn struct {
	graph    *dag.Graph
	workflow *store.Workflow
	version  int32
}

// viewOf serves a drawing.
func (d drawings) viewOf(ctx context.Context, g *drawn, v *View, in *Form) (*streamOut, error) {
	switch {
	case v.Fold && v.Against != 0:
		return nil, invalid("a drawing cannot be folded and compared with a version at the same time: leave out fold or against")
	case v.Fold:
		return d.foldedOf(ctx, g.graph, v, in)
	case v.Against != 0:
		return d.comparedOf(ctx, g, v.Against, in)
	}
	return d.layoutOf(ctx, g.graph, in)
}

// kept serves a drawing. It caches the packed form under a key.
func (d drawings) kept(ctx context.Context, key [32]byte, in *Form, make func() *drawing) (*streamOut, error) {
	a := in.answer(key, layout.MediaType)
	if a.known {
		return a.send(nil, nil), nil
	}
	if a.packed != "" {
		packed, err := d.s.layouts.packed(ctx, key, make)
		return a.send(packed, nil), err
	}
	made, err := d.s.layouts.fresh(ctx, make)
	return a.send(nil, func() any { return made.body() }), err
}

func (d drawings) foldedOf(ctx context.Context, g *dag.Graph, v *View, in *Form) (*streamOut, error) {
	base := keyOf(g)
	open := slices.Clone(v.Open)
	slices.Sort(open)
	h := sha256.New()
	h.Write(base[:])
	h.Write([]byte("folded"))
	for _, o := range open {
		h.Write(append([]byte{0}, o...))
	}
	var key [32]byte
	h.Sum(key[:0])
	return d.kept(ctx, key, in, func() *drawing { return fold(g, open) })
}

func nameFrom(g *dag.Graph) func(t int) string {
	return func(t int) string { return g.Name(dag.TaskID(t)) }
}

func fold(g *dag.Graph, open []string) *drawing {
	name := nameFrom(g)
	kinds := append(slices.Clone(dag.Kinds()), layout.FoldKinds()...)
	single := len(dag.Kinds())
	f := layout.Fold(needsOf(g), layout.Folding{Name: name, Plain: func(t int) bool { return g.Kind(dag.TaskID(t)) == dag.Work },
		Open: func(k layout.FoldKind, first int) bool {
			_, is := slices.BinarySearch(open, kinds[single+int(k)-1]+":"+name(first))
			return is
		}})
	task := func(n int) layout.Task {
		if k := f.Kind[n]; k != layout.Single {
			return layout.Task{Name: f.Label(n, name), Kind: uint8(single + int(k) - 1)}
		}
		t := f.Members[n][0]
		return layout.Task{Name: name(int(t)), Kind: uint8(shownKind(g, dag.TaskID(t)))}
	}
	made := drawingOf(&f.Graph, kinds, task)
	made.packed, made.members = layout.PackMembers(made.packed, f.Members), f.Members
	return made
}

func (d drawings) comparedOf(ctx context.Context, g *drawn, against int32, in *Form) (*streamOut, error) {
	other, err := d.s.graphOfVersion(g.workflow, against)
	if err != nil {
		return nil, err
	}
	is, err := taskForms(ctx, d.s, g.workflow, g.version)
	if err != nil {
		return nil, err
	}
	was, err := taskForms(ctx, d.s, g.workflow, against)
	if err != nil {
		return nil, err
	}
	one, two := keyOf(g.graph), keyOf(other)
	h := sha256.New()
	h.Write(one[:])
	h.Write(two[:])
	h.Write([]byte("compared"))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(g.workflow.ID)))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(g.version)<<32|uint64(against)))
	var key [32]byte
	h.Sum(key[:0])
	return d.kept(ctx, key, in, func() *drawing { return compared(g.graph, other, is, was) })
}

// taskForms returns the canonical text of each task of a version, by the task's name.
func taskForms(ctx context.Context, s *Server, w *store.Workflow, version int32) (map[string][]byte, error) {
	def, err := s.definition(ctx, w, version)
	if err != nil {
		return nil, err
	}
	forms := make(map[string][]byte, len(def.Tasks))
	for i := range def.Tasks {
		if forms[def.Tasks[i].Name], err = json.Marshal(&def.Tasks[i]); err != nil {
			return nil, err
		}
	}
	return forms, nil
}

// compared draws two graphs as one. A task of both graphs has changed if its text or its kind differs.
func compared(newer, older *dag.Graph, is, was map[string][]byte) *drawing {
	u := layout.Join(needsOf(newer), needsOf(older), nameFrom(newer), nameFrom(older))
	task := func(n int) layout.Task {
		g, t := newer, dag.TaskID(u.Newer[n])
		if u.Newer[n] < 0 {
			g, t = older, dag.TaskID(u.Older[n])
		}
		return layout.Task{Name: g.Name(t), Kind: uint8(shownKind(g, t))}
	}
	members := make([][]int32, u.Len())
	for n := range members {
		if u.Newer[n] < 0 {
			continue
		}
		members[n] = []int32{u.Newer[n]}
		name := task(n).Name
		if u.Change[n] == layout.Same && (!bytes.Equal(is[name], was[name]) || shownKind(newer, dag.TaskID(u.Newer[n])) != shownKind(older, dag.TaskID(u.Older[n]))) {
			u.Change[n] = layout.Changed
		}
	}
	made := drawingOf(&u.Graph, dag.Kinds(), task)
	made.packed = layout.PackChanges(layout.PackMembers(made.packed, members), u.Change, u.Edge)
	made.members, made.changes, made.edges = members, u.Change, u.Edge
	return made
}

var changeNames = [...]string{layout.Same: "same", layout.Added: "added", layout.Removed: "removed", layout.Changed: "changed"}

// needsOf returns a graph in the form for package layout.
func needsOf(g *dag.Graph) *layout.Graph {
	n := len(g.Order()) // without the instances of foreach tasks
	out := &layout.Graph{Off: make([]int32, 1, n+1)}
	for t := range n {
		for _, p := range g.Needs(dag.TaskID(t)) {
			out.Needs = append(out.Needs, int32(p))
		}
		out.Off = append(out.Off, int32(len(out.Needs)))
	}
	return out
}

// drawingOf computes the layout of a graph, and packs the drawing.
func drawingOf(g *layout.Graph, kinds []string, task func(n int) layout.Task) *drawing {
	d := &drawing{graph: *g, layout: layout.Place(g)}
	d.packed = layout.Pack(g, d.layout, kinds, task)
	d.task = func(n int) (name, kind string) {
		is := task(n)
		return is.Name, kinds[is.Kind]
	}
	return d
}

// body returns the drawing in the form for JSON.
func (d *drawing) body() *api.Layout {
	n := d.graph.Len()
	out := &api.Layout{Columns: d.layout.Columns, ColumnWidth: layout.ColumnWidth, RowHeight: layout.RowHeight,
		Nodes: make([]api.LayoutNode, n), Edges: make([][2]int32, 0, len(d.graph.Needs))}
	for t := range n {
		name, kind := d.task(t)
		out.Nodes[t] = api.LayoutNode{ID: int32(t), Name: name, Kind: kind, X: int(d.layout.Column[t]) * layout.ColumnWidth, Y: float64(d.layout.Y[t]) / 4}
		if d.members != nil {
			out.Nodes[t].Tasks = append([]int32{}, d.members[t]...)
		}
		if d.changes != nil {
			out.Nodes[t].Change = changeNames[d.changes[t]]
		}
		for _, p := range d.graph.Needs[d.graph.Off[t]:d.graph.Off[t+1]] {
			out.Edges = append(out.Edges, [2]int32{p, int32(t)})
		}
	}
	for _, c := range d.edges {
		out.EdgeChanges = append(out.EdgeChanges, changeNames[c])
	}
	return out
}
