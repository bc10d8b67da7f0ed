package server

import (
	"cmp"
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

// Bounds of the cache of packed drawings. The drawing of 100,000 tasks has 2 MB.
const (
	layoutsMax     = 10_000
	layoutBytesMax = 64 << 20
)

// drawings serves layouts, states, grids and timelines.
type drawings struct{ s *Server }

// drawingRoutes registers the reads for the pictures of the web page.
func (s *Server) drawingRoutes(workflows, runs tag) {
	d := drawings{s}
	const (
		layoutDoc = "The drawing as JSON or, if Accept names that type, packed as package internal/layout describes."
		statesDoc = "The states as JSON or, if Accept names that type, packed."
	)
	ofVersion := workflows.get("/workflows/{ns}/{name}/layout", "get-workflow-layout", "Read the positions of a version's tasks in the drawing of its graph")
	route(s, columns[api.Layout](s, ofVersion, layout.MediaType, layoutDoc), d.workflowLayout)
	ofRun := runs.get("/runs/{id}/layout", "get-run-layout", "Read the positions of a run's tasks in the drawing of its graph")
	route(s, columns[api.Layout](s, ofRun, layout.MediaType, layoutDoc), d.runLayout)
	states := runs.get("/runs/{id}/states", "get-run-states", "Read the state of every task of a run")
	route(s, columns[api.TaskStates](s, states, statesType, statesDoc), d.runStates)
	route(s, workflows.get("/workflows/{ns}/{name}/grid", "get-workflow-grid", "Read the states of a workflow's tasks in its last runs"), d.workflowGrid)
	route(s, workflows.get("/workflows/{ns}/{name}/stats", "get-workflow-stats", "Count the ended runs of a workflow, with their durations"), statistics{s, statsRows}.workflow)
	route(s, workflows.get("/workflows/{ns}/{name}/explain", "explain-workflow", "Explain why a workflow starts no runs, and when it starts the next one"), eventing{s}.explainFlow)
	route(s, runs.get("/runs/{id}/timeline", "get-run-timeline", "Read the begin and end of each attempt of a run"), d.runTimeline)
}

// layouts caches packed drawings by their content, so that versions and runs with the same tasks share one. A
// drawing in JSON is made for each answer.
type layouts struct {
	busy chan struct{} // holds one token, so that only one drawing is made at a time

	kept *lru.Cache[[32]byte, []byte] // packed
}

// drawing is a layout and its packed form.
type drawing struct {
	graph   layout.Graph
	layout  *layout.Layout
	packed  []byte
	task    func(n int) (name, kind string)
	members [][]int32       // for each node, the tasks that it stands for; nil if each node is one task
	changes []layout.Change // for each node; nil if the graphs are not compared
	edges   []layout.Change // for each edge
}

func newLayouts() *layouts {
	c := &layouts{busy: make(chan struct{}, 1), kept: lru.New[[32]byte, []byte](layoutsMax, layoutBytesMax)}
	c.busy <- struct{}{}
	return c
}

// packed returns the packed drawing of a key. If it is not in the cache, packed makes it. The only error is
// the end of ctx.
func (c *layouts) packed(ctx context.Context, key [32]byte, make func() *drawing) ([]byte, error) {
	if b, ok := c.kept.Get(key); ok {
		return b, nil
	}
	d, err := c.fresh(ctx, func() *drawing {
		if b, ok := c.kept.Get(key); ok { // made meanwhile
			return &drawing{packed: b}
		}
		d := make()
		c.kept.Put(key, d.packed, len(d.packed))
		return d
	})
	if err != nil {
		return nil, err
	}
	return d.packed, nil
}

// fresh makes a drawing. The only error is the end of ctx.
func (c *layouts) fresh(ctx context.Context, make func() *drawing) (*drawing, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.busy:
	}
	defer func() { c.busy <- struct{}{} }()
	return make(), nil
}

func draw(g *dag.Graph) *drawing {
	return drawingOf(needsOf(g), dag.Kinds(), func(t int) layout.Task {
		return layout.Task{Name: g.Name(dag.TaskID(t)), Kind: uint8(shownKind(g, dag.TaskID(t)))}
	})
}

// shownKind returns the kind that a drawing shows: Work if a worker runs the task.
func shownKind(g *dag.Graph, t dag.TaskID) dag.Kind {
	if l := g.Logic(t); l != nil {
		return l.Shown()
	}
	return dag.Work
}

// drawnAs names the algorithm of drawings and their packed form. It must change with either of them, so that
// no browser keeps an old drawing under the same ETag.
const drawnAs = "2"

// keyOf returns the hash of those parts of a graph that a drawing, or an answer with a graph, shows.
func keyOf(g *dag.Graph) (key [32]byte) {
	h := sha256.New()
	b := []byte(drawnAs)
	h.Write(b)
	for t := range len(g.Order()) {
		id := dag.TaskID(t)
		b = append(append(b[:0], g.Name(id)...), 0, byte(shownKind(g, id)))
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
	View
	Version int32 `query:"version" minimum:"1" maximum:"2147483647" doc:"Absent: the current one."`
}

type runLayoutIn struct {
	RunPath
	Form
	View
}

type runStatesIn struct {
	RunPath
	Form
}

// Form is the parameter of a route that answers either in JSON or in the packed form.
type Form struct {
	Accept      string `header:"Accept" doc:"The packed form if it is named, else JSON."`
	IfNoneMatch string `header:"If-None-Match"`
}

func (d drawings) workflowLayout(ctx context.Context, in *layoutIn) (*streamOut, error) {
	w, err := d.s.workflow(ctx, &in.WorkflowPath)
	if err != nil {
		return nil, err
	}
	version := cmp.Or(in.Version, w.Version)
	g, err := d.s.graphOfVersion(&w, version)
	if err != nil {
		return nil, err
	}
	return d.viewOf(ctx, &drawn{g, &w, version}, &in.View, &in.Form)
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
	is := &drawn{graph: g, version: row.Version}
	if in.Against != 0 {
		w, err := d.s.engine.WorkflowByID(ctx, row.Workflow)
		if err != nil {
			return nil, err
		}
		is.workflow = &w
	}
	return d.viewOf(ctx, is, &in.View, &in.Form)
}

func (d drawings) layoutOf(ctx context.Context, g *dag.Graph, in *Form) (*streamOut, error) {
	return d.kept(ctx, keyOf(g), in, func() *drawing { return draw(g) })
}

func (d drawings) runStates(ctx context.Context, in *runStatesIn) (*streamOut, error) {
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

// packStates packs the states of tasks, and sets their spans in out:
//
//	"SKS1", u32 tasks, u8 names, then each name of a state with a NUL after it
//	until all tasks are listed: u8 state, an index into the names, and varint count
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
	packed string // the media type of the packed answer; "" if the answer is JSON
	known  bool   // the client already has this content
}

// answer chooses the form that the client accepts.
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
			_, _ = w.Write(packed) // an error means that the client is gone
		default:
			h.Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(body()) // an error means that the client is gone
		}
	}}
}

// columns documents an operation that answers either in JSON or in the packed form.
func columns[T any](s *Server, op huma.Operation, packedType, doc string) huma.Operation {
	op = streaming(op, packedType, doc)
	schema := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
	op.Responses["200"].Content["application/json"] = &huma.MediaType{Schema: schema}
	op.Responses["304"] = &huma.Response{Description: "It is what the ETag of If-None-Match names."}
	return op
}
