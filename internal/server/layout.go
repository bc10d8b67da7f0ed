package server

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/layout"
	"skein.dev/skein/internal/lru"
	api "skein.dev/skein/sdk/api/v1"
)

// statesType names the packed form of the states of a run's tasks.
const statesType = "application/vnd.skein.states"

// Bounds of the drawings that are kept. A drawing of 100,000 tasks has 2 MB.
const (
	layoutsMax     = 10_000
	layoutBytesMax = 64 << 20
)

// drawings serves layouts, states, grids and timelines.
type drawings struct{ s *Server }

// drawingRoutes are the reads behind the pictures of the web page.
func (s *Server) drawingRoutes(workflows, runs tag) {
	d := drawings{s}
	const (
		layoutDoc = "The drawing as JSON or, if Accept names that type, packed as package internal/layout describes."
		statesDoc = "The states as JSON or, if Accept names that type, packed."
	)
	ofVersion := workflows.get("/workflows/{ns}/{name}/layout", "get-workflow-layout", "Read where the tasks of a version are drawn")
	route(s, columns[api.Layout](s, ofVersion, layout.MediaType, layoutDoc), d.workflowLayout)
	ofRun := runs.get("/runs/{id}/layout", "get-run-layout", "Read where the tasks of a run are drawn")
	route(s, columns[api.Layout](s, ofRun, layout.MediaType, layoutDoc), d.runLayout)
	states := runs.get("/runs/{id}/states", "get-run-states", "Read the state of every task of a run")
	route(s, columns[api.TaskStates](s, states, statesType, statesDoc), d.runStates)
	route(s, workflows.get("/workflows/{ns}/{name}/grid", "get-workflow-grid", "Read how the tasks of a workflow stood in its runs"), d.workflowGrid)
	route(s, runs.get("/runs/{id}/timeline", "get-run-timeline", "Read when the attempts of a run took place"), d.runTimeline)
}

// layouts keeps drawings by the content that they are made of, so that versions and runs with the same
// tasks share one.
type layouts struct {
	busy chan struct{} // holds one token, so one drawing is made at a time

	kept *lru.Cache[[32]byte, *drawing]
}

// drawing is a layout and its packed form.
type drawing struct {
	graph  layout.Graph
	layout *layout.Layout
	packed []byte
}

func newLayouts() *layouts {
	c := &layouts{busy: make(chan struct{}, 1), kept: lru.New[[32]byte, *drawing](layoutsMax, layoutBytesMax)}
	c.busy <- struct{}{}
	return c
}

// get returns the drawing of a graph, and makes it if necessary. It returns an error only if ctx ends.
func (c *layouts) get(ctx context.Context, g *dag.Graph, key [32]byte) (*drawing, error) {
	if d, ok := c.kept.Get(key); ok {
		return d, nil
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.busy:
	}
	defer func() { c.busy <- struct{}{} }()
	if d, ok := c.kept.Get(key); ok {
		return d, nil
	}
	d := draw(g)
	c.kept.Put(key, d, 2*len(d.packed)+8*len(d.graph.Needs))
	return d, nil
}

func draw(g *dag.Graph) *drawing {
	d := &drawing{}
	n := len(g.Order()) // without the instances of foreach tasks
	d.graph.Off = make([]int32, 1, n+1)
	for t := range n {
		for _, p := range g.Needs(dag.TaskID(t)) {
			d.graph.Needs = append(d.graph.Needs, int32(p))
		}
		d.graph.Off = append(d.graph.Off, int32(len(d.graph.Needs)))
	}
	d.layout = layout.Place(&d.graph)
	d.packed = layout.Pack(&d.graph, d.layout, dag.Kinds(), func(t int) layout.Task {
		return layout.Task{Name: g.Name(dag.TaskID(t)), Kind: uint8(g.Kind(dag.TaskID(t)))}
	})
	return d
}

// drawnAs names the algorithm of drawings and their packed form. Change it with either, so that no browser
// keeps an old drawing under the same ETag.
const drawnAs = "1"

// keyOf returns the hash of everything that a drawing, or an answer with a graph, shows of the graph.
func keyOf(g *dag.Graph) (key [32]byte) {
	h := sha256.New()
	b := []byte(drawnAs)
	h.Write(b)
	for t := range len(g.Order()) {
		id := dag.TaskID(t)
		b = append(append(b[:0], g.Name(id)...), 0, byte(g.Kind(id)))
		needs := g.Needs(id)
		b = binary.AppendUvarint(b, uint64(len(needs)))
		for _, p := range needs {
			b = binary.AppendUvarint(b, uint64(p))
		}
		h.Write(b)
	}
	h.Sum(key[:0])
	return key
}

type layoutIn struct {
	WorkflowPath
	Form
	Version int32 `query:"version" minimum:"1" maximum:"2147483647" doc:"Absent: the current one."`
}

type runLayoutIn struct {
	RunPath
	Form
}

// Form is the parameter of a route that answers in JSON or in the packed form.
type Form struct {
	Accept      string `header:"Accept" doc:"The packed form if it is named, else JSON."`
	IfNoneMatch string `header:"If-None-Match"`
}

func (d drawings) workflowLayout(ctx context.Context, in *layoutIn) (*streamOut, error) {
	g, err := d.s.versionGraph(ctx, &in.WorkflowPath, in.Version)
	if err != nil {
		return nil, err
	}
	return d.layoutOf(ctx, g, &in.Form)
}

func (d drawings) runLayout(ctx context.Context, in *runLayoutIn) (*streamOut, error) {
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	row, err := d.s.engine.RunRow(ctx, id)
	if err != nil {
		return nil, err
	}
	g, err := d.s.engine.RunGraph(&row)
	if err != nil {
		return nil, err
	}
	return d.layoutOf(ctx, g, &in.Form)
}

func (d drawings) layoutOf(ctx context.Context, g *dag.Graph, in *Form) (*streamOut, error) {
	key := keyOf(g)
	a := in.answer(key, layout.MediaType)
	if a.known {
		return a.send(nil, nil), nil
	}
	made, err := d.s.layouts.get(ctx, g, key)
	if err != nil {
		return nil, err
	}
	return a.send(made.packed, func() any { return layoutBody(g, made) }), nil
}

func layoutBody(g *dag.Graph, d *drawing) *api.Layout {
	n := len(d.layout.Column)
	out := &api.Layout{Columns: d.layout.Columns, ColumnWidth: layout.ColumnWidth, RowHeight: layout.RowHeight,
		Nodes: make([]api.LayoutNode, n), Edges: make([][2]int32, 0, len(d.graph.Needs))}
	for t := range n {
		id := dag.TaskID(t)
		out.Nodes[t] = api.LayoutNode{ID: int32(t), Name: g.Name(id), Kind: g.Kind(id).String(),
			X: int(d.layout.Column[t]) * layout.ColumnWidth, Y: float64(d.layout.Y[t]) / 4}
		for _, p := range g.Needs(id) {
			out.Edges = append(out.Edges, [2]int32{int32(p), int32(t)})
		}
	}
	return out
}

func (d drawings) runStates(ctx context.Context, in *runLayoutIn) (*streamOut, error) {
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	glance, err := d.s.engine.Glance(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &api.TaskStates{Run: in.ID, State: glance.Row.State.String(), Tasks: len(glance.States), States: []api.StateSpan{}, Instances: []api.InstanceSpan{}}
	packed := packStates(glance.States, out, glance.Graph)
	sum := sha256.Sum256(append([]byte(out.State), packed...))
	return in.answer(sum, statesType).send(packed, func() any { return out }), nil
}

// packStates writes the states of tasks, and fills in their spans:
//
//	"SKS1", u32 tasks, u8 names, then each name of a state with a NUL after it
//	until all tasks are told: u8 state, an index into the names, and varint count
//	to the end: varint number of a foreach task and varint count of the instances that follow
func packStates(all []dag.TaskState, out *api.TaskStates, g *dag.Graph) []byte {
	names := stateNames()
	b := binary.LittleEndian.AppendUint32([]byte("SKS1"), uint32(len(all)))
	b = append(b, byte(len(names)))
	for _, name := range names {
		b = append(append(b, name...), 0)
	}
	for t := 0; t < len(all); {
		from := t
		for t < len(all) && all[t] == all[from] {
			t++
		}
		b = binary.AppendUvarint(append(b, byte(all[from])), uint64(t-from))
		out.States = append(out.States, api.StateSpan{State: all[from].String(), Count: t - from})
	}
	for t := len(g.Order()); t < len(all); {
		of, from := instanceOf(g, t), t
		for t < len(all) && instanceOf(g, t) == of {
			t++
		}
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(of)), uint64(t-from))
		out.Instances = append(out.Instances, api.InstanceSpan{Of: int32(of), Count: t - from})
	}
	return b
}

func instanceOf(g *dag.Graph, t int) dag.TaskID {
	of, _ := g.InstanceOf(dag.TaskID(t))
	return of
}

// columnsAnswer is an answer in JSON or packed, and the tag of its content.
type columnsAnswer struct {
	tag    string
	packed string // the media type of the packed answer; "": JSON
	known  bool   // the client has this content
}

// answer chooses the form that the client takes.
func (in *Form) answer(hash [32]byte, packedType string) columnsAnswer {
	a := columnsAnswer{tag: hex.EncodeToString(hash[:12])}
	if strings.Contains(in.Accept, packedType) {
		a.tag, a.packed = a.tag+"-packed", packedType
	}
	a.tag = strconv.Quote(a.tag)
	a.known = holds(in.IfNoneMatch, a.tag)
	return a
}

func (a columnsAnswer) send(packed []byte, body func() any) *streamOut {
	return &streamOut{Body: func(hc huma.Context) {
		_, w := humago.Unwrap(hc)
		h := w.Header()
		h.Set("ETag", a.tag)
		h.Set("Cache-Control", cacheAsk)
		h.Set("Vary", "Accept")
		switch {
		case a.known:
			w.WriteHeader(http.StatusNotModified)
		case a.packed != "":
			h.Set("Content-Type", a.packed)
			_, _ = w.Write(packed) // an error means that the client has gone
		default:
			h.Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(body()) // an error means that the client has gone
		}
	}}
}

// columns documents an operation that answers in JSON or packed.
func columns[T any](s *Server, op huma.Operation, packedType, doc string) huma.Operation {
	op = streaming(op, packedType, doc)
	schema := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
	op.Responses["200"].Content["application/json"] = &huma.MediaType{Schema: schema}
	op.Responses["304"] = &huma.Response{Description: "It is what the ETag of If-None-Match names."}
	return op
}
