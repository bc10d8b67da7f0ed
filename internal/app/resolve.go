package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/lru"
	"skein.dev/skein/internal/remote"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
	"skein.dev/skein/internal/workflow"
)

// Causes of attempts that never became a process.
const (
	causeExpression = dag.Cause("expression")
	causeStart      = dag.Cause("start")
)

// notStarted is why an attempt cannot be made into a job; its text is for a person.
type notStarted struct {
	cause dag.Cause
	err   error
}

func (e *notStarted) Error() string { return e.err.Error() }
func (e *notStarted) Unwrap() error { return e.err }

func causeOf(err error) dag.Cause {
	var n *notStarted
	if errors.As(err, &n) {
		return n.cause
	}
	return causeStart
}

// resolver makes jobs of assignments: definition, parameters, outputs of what a task reads, environment,
// folder, files. What repeats is kept: definitions for long, a run's row as long as attempts of it are here.
type resolver struct {
	store     store.Store
	versions  *lru.Loader[versionID, *version]
	artifacts string         // folder that the nodes share for them; "": the node's own
	kept      *keptFiles     // set before the first job
	engine    *engine.Engine // set before the first job
	// egress is what requests may reach wherever they are sent; here adds what holds for this node. Set before the first job.
	egress func() egress.Rules
	here   func(egress.Rules) egress.Rules

	mu   *sync.Mutex // protects following fields
	runs map[dag.RunID]*runEntry
	idle []idleRun // runs that were left, in that order; one may stand here often, and may be in use again
	left int64     // how often that was
}

type versionID struct {
	workflow dag.WorkflowID
	version  int32
}

// version is a definition as attempts need it.
type version struct {
	*workflow.Workflow
	types []map[string]string // declared outputs by task; nil: none
	reads [][]string          // tasks whose outputs are read, by task
	files func() ([]worker.File, error)
}

// runEntry is a run's row. It is read by the first attempt that comes here, and kept for the next ones for a while:
// what is taken from it does not change, but for its generation, which an assignment says itself, and its graph,
// which grows.
type runEntry struct {
	mu   sync.Mutex // protects row and read
	row  dag.RunRow
	read bool
	uses int
	left int64 // the last time that nobody had it any more
}

// idleRun is a run that nobody had any more at a time.
type idleRun struct {
	run  dag.RunID
	left int64
}

const (
	versionsKept  = 256     // definitions
	filesKeptSize = 1 << 20 // bytes of files kept with a definition; larger ones are read each time
)

func newResolver(st store.Store) resolver {
	r := resolver{store: st, mu: &sync.Mutex{}, runs: map[dag.RunID]*runEntry{}}
	r.versions = lru.NewLoader(versionsKept, r.loadVersion)
	return r
}

func (r *resolver) loadVersion(id versionID) (*version, error) {
	row, err := r.store.Version(context.Background(), id.workflow, id.version)
	if err != nil {
		return nil, fmt.Errorf("read version %d of the workflow: %w", id.version, err)
	}
	w, err := workflow.Decode(row.Def)
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", id.version, err)
	}
	v := &version{Workflow: w, types: make([]map[string]string, len(w.Tasks)), reads: make([][]string, len(w.Tasks))}
	for i := range w.Tasks {
		v.reads[i] = w.ReadsOutputs(i)
		if len(w.Tasks[i].Outputs) > 0 {
			v.types[i] = map[string]string{}
		}
		for _, out := range w.Tasks[i].Outputs {
			v.types[i][out.Name] = string(out.Type)
		}
	}
	v.files = r.filesOf(id)
	return v, nil
}

// filesOf reads a version's files when somebody needs them, and keeps them if they are small.
func (r *resolver) filesOf(id versionID) func() ([]worker.File, error) {
	var mu sync.Mutex
	var kept []worker.File
	return func() ([]worker.File, error) {
		mu.Lock()
		defer mu.Unlock()
		if kept != nil {
			return kept, nil
		}
		rows, err := r.store.Files(context.Background(), id.workflow, id.version)
		if err != nil {
			return nil, err
		}
		files := make([]worker.File, len(rows))
		size := 0
		for i, f := range rows {
			files[i] = worker.File{Name: f.Name, Mode: fs.FileMode(f.Mode), Content: f.Data}
			size += len(f.Data)
		}
		if size <= filesKeptSize {
			kept = files
		}
		return files, nil
	}
}

// enter counts an attempt of a run and gives its row, read by the first one. Every enter has its leave.
func (r *resolver) enter(a *engine.Assignment) (*dag.RunRow, error) {
	id := a.Run
	r.mu.Lock()
	e := r.runs[id]
	if e == nil || e.uses == 0 && a.Generation == 0 {
		e = &runEntry{}
		r.runs[id] = e
	}
	e.uses++
	r.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.read { // an error is nobody else's: the next one asks again
		row, err := r.store.Run(context.Background(), id)
		if err != nil {
			return nil, fmt.Errorf("read the run: %w", err)
		}
		e.row, e.read = row, true
	}
	return &e.row, nil
}

// Between two times of asking a store that does not answer.
const (
	askAgainSoon = 50 * time.Millisecond
	askAgainLate = time.Second
)

// surely resolves again and again while the store does not answer: that is no fault of the task. wait lets a time
// pass, and is false if nobody wants the job any more.
func (r *resolver) surely(run dag.RunID, resolve func() error, wait func(time.Duration) bool) error {
	err := resolve()
	for pause := askAgainSoon; errors.Is(err, store.ErrUnavailable) || errors.Is(err, engine.ErrUnavailable); pause = min(2*pause, askAgainLate) {
		if !wait(pause) {
			return errUnwanted
		}
		r.leave(run) // it is entered once more
		err = resolve()
	}
	return err
}

// errUnwanted: the job is not wanted any more.
var errUnwanted = errors.New("nobody wants the job any more")

func (r *resolver) leave(id dag.RunID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.runs[id]
	if e == nil || e.uses == 0 {
		return
	}
	if e.uses--; e.uses > 0 {
		return
	}
	e.mu.Lock() // nobody has it
	defer e.mu.Unlock()
	if !e.read || len(e.row.Params)+len(e.row.Graph) > idleBytesMax {
		delete(r.runs, id)
		return
	}
	r.left++
	e.left = r.left
	r.idle = append(r.idle, idleRun{id, r.left})
	if len(r.idle) > idleMax {
		first := r.idle[0]
		if old := r.runs[first.run]; old != nil && old.uses == 0 && old.left == first.left { // else it was had since
			delete(r.runs, first.run)
		}
		r.idle = slices.Delete(r.idle, 0, 1)
	}
}

const (
	// idleMax bounds the rows that are kept of runs without an attempt here, those that were left last: in a chain that is
	// the time between one task and the next.
	idleMax = 512
	// idleBytesMax is up to how many bytes a row is kept.
	idleBytesMax = 16 << 10
)

// job makes the job of an assignment that runs here.
func (r *resolver) job(ctx context.Context, a *engine.Assignment) (*worker.Job, error) {
	is, err := r.resolve(ctx, a)
	if err != nil {
		return nil, err
	}
	job := is.job
	if job.HTTP != nil {
		job.HTTP.Egress = r.here(job.HTTP.Egress)
	}
	if is.kind != "" { // no place leads it here
		return nil, &notStarted{causeStart, fmt.Errorf("task %s is of kind %s, for which a node has no handler", a.Name, is.kind)}
	}
	if job.Dir, err = remote.Folder(is.version.Origin, is.dir); err != nil {
		return job, &notStarted{causeStart, err}
	}
	if job.Dir == "" && job.HTTP == nil {
		files, err := is.version.files()
		if err != nil {
			return job, fmt.Errorf("read the workflow's files: %w", err)
		}
		job.Files = func() ([]worker.File, error) { return files, nil }
	}
	return job, nil
}

// resolved is what is known of an attempt wherever it runs. Its folder is the worker's to find.
type resolved struct {
	job     *worker.Job
	version *version
	dir     string
	kind    string          // "": a process
	input   json.RawMessage // of a kind
	instant time.Time       // that the run is for
}

// resolve makes the job of an assignment but for its folder, which is where it runs.
func (r *resolver) resolve(ctx context.Context, a *engine.Assignment) (*resolved, error) {
	row, err := r.enter(a)
	if err != nil {
		return nil, err
	}
	if a.Graph == nil {
		if err := r.graphFor(ctx, a, row); err != nil {
			return nil, err
		}
	}
	v, err := r.versions.Get(versionID{a.Workflow, a.Version})
	if err != nil {
		return nil, err
	}
	t, ok := v.position(a)
	if !ok {
		return nil, fmt.Errorf("version %d of workflow %s has no task %q", a.Version, v.Name, a.Name)
	}
	known, err := r.outputs(ctx, a, v.reads[t])
	if err != nil {
		return nil, err
	}
	res, err := v.Resolve(t, workflow.Inputs{Item: a.Graph.Item(a.Task),
		RunID: a.Run.String(), Version: int(a.Version), Attempt: int(a.Token), Params: row.Params, TriggerTime: row.Instant().Time(),
		Outputs: func(task string) (json.RawMessage, dag.TaskState) { o := known[task]; return o.json, o.state },
	})
	if err != nil {
		return nil, &notStarted{causeExpression, err}
	}
	p := v.Policy(t)
	job := &worker.Job{
		Key: worker.Key{Namespace: v.Namespace, Workflow: v.Name, RunID: a.Run.String(), Task: a.Name,
			Attempt: int(a.Token), Ref: int64(a.Task), IdempotencyKey: idempotencyKey(a, cmp.Or(a.Generation, row.Generation))},
		Env: environment(res.Env), Timeout: p.Timeout, KillGrace: p.KillGrace, WarnOnTimeout: p.WarnOnTimeout,
		OutputTypes: v.types[t], LockToken: a.LockToken,
	}
	need := p.Place.Need()
	job.CPU, job.Memory = need.CPU, need.Memory
	job.Artifacts, job.ArtifactsIn = v.Tasks[t].Artifacts, r.artifacts
	if reach := v.Reach(t); reach != nil {
		job.Access = &worker.Access{Read: reach.Read, Write: reach.Write}
	}
	if len(v.Tasks[t].Inputs) > 0 {
		sources, err := r.sources(ctx, v, t, a.Run, a.Graph)
		if err != nil {
			return nil, err
		}
		job.Inputs = &inputsOf{kept: r.kept, sources: sources}
	}
	if setRun(job, &res.Run); res.Request != nil {
		job.HTTP = request(res.Request)
		job.HTTP.Egress = r.egress()
	}
	return &resolved{job, v, res.Dir, v.Tasks[t].Kind, res.Input, row.Instant().Time()}, nil
}

// graphFor gives an assignment that came from another node its graph. A row that was read earlier may
// not have its task yet.
func (r *resolver) graphFor(ctx context.Context, a *engine.Assignment, row *dag.RunRow) error {
	g, err := r.engine.RunGraph(row)
	if err == nil && int(a.Task) >= g.Len() {
		var now dag.RunRow
		if now, err = r.store.Run(ctx, a.Run); err == nil {
			g, err = r.engine.RunGraph(&now)
		}
	}
	if err != nil {
		return fmt.Errorf("read the graph of the run: %w", err)
	}
	if int(a.Task) >= g.Len() {
		return fmt.Errorf("run %s has no task %d", a.Run, a.Task)
	}
	a.Graph = g
	return nil
}

// position finds a task in its definition: at its place in the graph, which is made in the order of the file.
func (v *version) position(a *engine.Assignment) (int, bool) {
	if t := int(a.Task); t < len(v.Tasks) && v.Tasks[t].Name == a.Name {
		return t, true
	}
	if of, ok := a.Graph.InstanceOf(a.Task); ok {
		return int(of), int(of) < len(v.Tasks)
	}
	return v.Find(a.Name)
}

// idempotencyKey is the same for all attempts of a task within a generation, so that an effect which an
// attempt may have had can be recognised by the next one. A new generation (recover, rerun) means to have
// the effect again: its key is another one.
func idempotencyKey(a *engine.Assignment, generation int32) string {
	key := a.Run.String() + "/" + a.Name
	if generation > 1 {
		key += "/" + strconv.Itoa(int(generation))
	}
	return key
}

// remains is what an expression sees of a task.
type remains struct {
	json  json.RawMessage
	state dag.TaskState
}

// outputs reads what the expressions of a task read, and nothing if they read nothing.
func (r *resolver) outputs(ctx context.Context, a *engine.Assignment, names []string) (map[string]remains, error) {
	if len(names) == 0 {
		return nil, nil
	}
	known := make(map[string]remains, len(names))
	var underived []string
	for _, name := range names {
		t, ok := a.Graph.Find(name)
		if !ok {
			return nil, &notStarted{causeExpression, fmt.Errorf("there is no task %q to read outputs of", name)}
		}
		rows, err := r.attempts(ctx, a.Run, t)
		if err != nil {
			return nil, fmt.Errorf("read the outputs of task %s: %w", name, err)
		}
		o, ok := lastOf(rows)
		if !ok {
			underived = append(underived, name)
		}
		known[name] = o
	}
	if len(underived) > 0 {
		return known, r.derive(ctx, a, underived, known)
	}
	return known, nil
}

// lastOf takes the state of a task from its newest attempt, if that tells.
func lastOf(rows []dag.AttemptRow) (remains, bool) {
	if len(rows) == 0 {
		return remains{}, false
	}
	switch last := &rows[len(rows)-1]; last.State {
	case dag.AttemptSucceeded:
		return remains{json: last.Outputs, state: dag.Succeeded}, true
	case dag.AttemptStopped:
		return remains{state: dag.Stopped}, true
	}
	return remains{}, false
}

// derive fills in the states of tasks that no attempt tells: skipped, upstream_failed, failed for good.
func (r *resolver) derive(ctx context.Context, a *engine.Assignment, names []string, known map[string]remains) error {
	row, err := r.store.Run(ctx, a.Run)
	if err != nil {
		return fmt.Errorf("read the run: %w", err)
	}
	g, views, err := r.engine.Standing(ctx, &row)
	if err != nil {
		return fmt.Errorf("read how its tasks stand: %w", err)
	}
	for _, name := range names {
		t, _ := g.Find(name)
		known[name] = remains{state: views[t].State}
	}
	return nil
}

// interpreters are the programs of inline code by its language.
var interpreters = map[string]string{"python": "python3"}

func setRun(job *worker.Job, run *workflow.Run) {
	switch {
	case run.Shell != "":
		job.Argv = []string{"sh", "-c", run.Shell}
	case run.Code != "":
		program := run.Lang
		if p, ok := interpreters[run.Lang]; ok {
			program = p
		}
		job.Script = &worker.Script{Interpreter: program, Code: run.Code, Args: run.Args}
	case run.File != "":
		job.Script = &worker.Script{File: run.File, Args: run.Args}
	default:
		job.Argv = run.Argv
	}
}

// request is what the worker sends.
func request(s *workflow.Sent) *worker.Request {
	q := &worker.Request{Method: s.Method, URL: s.URL, Body: s.Body, Timeout: time.Duration(s.Timeout), Status: s.Status,
		Contains: s.Contains, Answer: s.Answer, Keep: s.Keep}
	for _, h := range s.Headers {
		q.Header = append(q.Header, [2]string{h.Name, h.Value})
	}
	return q
}

func environment(env []workflow.KV) []string {
	all := make([]string, len(env))
	for i, kv := range env {
		all[i] = kv.Name + "=" + kv.Value
	}
	return all
}
