package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/extension"
	"skein.dev/skein/internal/lru"
	"skein.dev/skein/internal/provider"
	"skein.dev/skein/internal/remote"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
	"skein.dev/skein/internal/workflow"
)

// Causes of failed attempts that never started a process.
const (
	causeExpression = dag.Cause("expression")
	causeStart      = dag.Cause("start")
	causeSecret     = dag.Cause("secret")
	causeConnection = dag.Cause("connection")
)

// notStarted is the reason why no job can be made for an attempt. Its text is for people.
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

// Config holds the dependencies of a Resolver.
type Config struct {
	Store   store.Store
	Quiet   bool    // this process sends no notices, so a task does not wait until its message is sent
	Secrets Secrets // nil if the node has no secrets
	Params  Params  // nil if parameters of type secret cannot be opened
	Kept    Kept
	// Artifacts is the folder in which the keeper stores artifacts: one that the nodes share, or one of this
	// node, from which it delivers them. If it is "", the keeper uses the data folder.
	Artifacts string
	Engine    func() *engine.Engine // engine of this process; must be set before worker.Link.Begin
	// Extensions holds the kinds that this node runs as processes, or nil if there is none.
	Extensions *extension.Book
	// Isolation is the level of isolation of tasks that require none: see store.Info.Isolation.
	Isolation string
	// Egress returns the rules for requests on every machine; Here adds the rules of this node.
	Egress func() egress.Rules
	Here   func(egress.Rules) egress.Rules
	// Traceparent returns the trace context for an attempt. If it is nil, an attempt gets the trace context
	// of the run's caller.
	Traceparent func(run *dag.Header, task dag.TaskID, token dag.Token) string
}

// Resolver makes jobs from assignments, with definition, parameters, the outputs that a task reads,
// environment, folder and files. It caches definitions for a long time, and the row of a run as long as the
// run has attempts here.
type Resolver struct {
	cfg      Config
	versions *lru.Loader[versionID, *version]
	awaited  *Awaited

	mu   sync.Mutex // protects following fields
	runs map[dag.RunID]*runEntry
	// idle lists the runs without attempts here, ordered by the time of their release. A run may occur
	// several times, and may be in use again.
	idle []idleRun
	left int64 // the number of releases of any run so far
	// waits holds the reasons why attempts are not started yet. It has few entries.
	waits map[engine.AttemptID]string
}

type versionID struct {
	workflow dag.WorkflowID
	version  int32
}

// version is a definition in the form that making jobs requires.
type version struct {
	*workflow.Workflow
	types []map[string]string // declared outputs by task; nil if there is none
	reads [][]string          // tasks whose outputs are read, by task
	files func() ([]worker.File, error)
	// digest is the digest of files, or "" if the files cannot be read now.
	digest func() string
}

// runEntry is the row of a run. The first attempt here reads it, and later attempts use it for a while. They
// use only fields that do not change, the generation of the assignment, and the graph, which grows.
type runEntry struct {
	mu   sync.Mutex // protects row and read
	row  dag.RunRow
	read bool
	uses int
	left int64 // the value of Resolver.left when the run was last released
}

// idleRun is a run without attempts here. left is the value of Resolver.left when the run was released.
type idleRun struct {
	run  dag.RunID
	left int64
}

const (
	versionsKept  = 256     // definitions
	filesKeptSize = 1 << 20 // largest size of files that are cached with a definition; larger files are read each time
)

// NewResolver returns a Resolver that has read nothing yet.
func NewResolver(cfg Config) *Resolver {
	r := &Resolver{cfg: cfg, runs: map[dag.RunID]*runEntry{}}
	r.versions = lru.NewLoader(versionsKept, r.loadVersion)
	r.awaited = NewAwaited(AwaitedConfig{Engine: cfg.Engine, Events: cfg.Store})
	return r
}

// Forget empties the caches of definitions and of places in the log of events. The database may have lost its
// newest versions and events, and new ones get their numbers.
func (r *Resolver) Forget() {
	r.versions.Clear()
	r.awaited.forget()
}

func (r *Resolver) loadVersion(id versionID) (*version, error) {
	row, err := r.cfg.Store.Version(context.Background(), id.workflow, id.version)
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
	v.digest = digestOf(v.files)
	return v, nil
}

// enter counts an attempt of a run, and returns the row of the run. Every enter needs a leave.
func (r *Resolver) enter(a *engine.Assignment) (*dag.RunRow, error) {
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
	if !e.read { // an error is not stored, so the next attempt reads again
		row, err := r.cfg.Store.Run(context.Background(), id)
		if err != nil {
			return nil, fmt.Errorf("read the run: %w", err)
		}
		e.row, e.read = row, true
	}
	return &e.row, nil
}

// The pauses between two reads while the store does not answer.
const (
	askAgainSoon = 50 * time.Millisecond
	askAgainLate = time.Second
)

// surely makes a job. While the store does not answer, it repeats the reads, because then a task does not
// fail. It waits at most secretsAway for a provider of secrets, not counting the time in which the store does
// not answer. wait pauses, and returns false if the job is no longer needed. surely also stops when ctx ends.
func (r *Resolver) surely(ctx context.Context, a *engine.Assignment, resolve func() error, wait func(time.Duration) bool) error {
	var since time.Time // the time of the first failure of a provider after the last failure of the store
	defer r.note(a, nil)
	for pause := askAgainSoon; ; pause = min(2*pause, askAgainLate) {
		err := resolve()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return errUnwanted
		case errors.Is(err, store.ErrUnavailable), errors.Is(err, errkind.ErrUnavailable):
			since = time.Time{}
		case !errors.Is(err, provider.ErrAway), !since.IsZero() && time.Since(since) > secretsAway:
			return err
		case since.IsZero():
			since = time.Now()
		}
		r.note(a, err)
		if !wait(pause) || ctx.Err() != nil {
			return errUnwanted
		}
		r.leave(a.Run) // resolve calls enter for the run again
	}
}

// note records why an attempt is not started yet. nil means that the attempt has started, or will never
// start.
func (r *Resolver) note(a *engine.Assignment, why error) {
	id := engine.AttemptID{Run: a.Run, Task: a.Task, Token: a.Token}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case why != nil && r.waits == nil:
		r.waits = map[engine.AttemptID]string{id: why.Error()}
	case why != nil:
		r.waits[id] = why.Error()
	case len(r.waits) > 0:
		delete(r.waits, id)
	}
}

// Waits returns the reason why an attempt that is assigned to this node, or to a worker of this node, has not
// been started yet. It returns "" if no reason is known.
func (r *Resolver) Waits(run dag.RunID, task dag.TaskID, token dag.Token) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waits[engine.AttemptID{Run: run, Task: task, Token: token}]
}

// errUnwanted means that the job is no longer wanted.
var errUnwanted = errors.New("the job is no longer wanted")

func (r *Resolver) leave(id dag.RunID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.runs[id]
	if e == nil || e.uses == 0 {
		return
	}
	if e.uses--; e.uses > 0 {
		return
	}
	e.mu.Lock() // no other goroutine holds this lock, because the run has no attempt here
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
		// otherwise the run was used in the meantime
		if old := r.runs[first.run]; old != nil && old.uses == 0 && old.left == first.left {
			delete(r.runs, first.run)
		}
		r.idle = slices.Delete(r.idle, 0, 1)
	}
}

const (
	// idleMax bounds the cached rows of runs without attempts, such as a run that is between two of its
	// tasks.
	idleMax = 512
	// idleBytesMax is the largest size of a cached row.
	idleBytesMax = 16 << 10
)

// job makes the job of an assignment for the worker of this process.
func (r *Resolver) job(ctx context.Context, a *engine.Assignment) (*worker.Job, error) {
	is, err := r.resolve(ctx, a, &dag.Traits{Extensions: r.cfg.Extensions.Extensions()}, false)
	if err != nil {
		return nil, err
	}
	job := is.job
	if job.HTTP != nil {
		job.HTTP.Egress = r.cfg.Here(job.HTTP.Egress)
	}
	switch {
	case job.Kind != nil:
		if err := remote.Furnish(job, r.cfg.Extensions, r.cfg.Here(r.cfg.Egress().Under(is.space.Name, is.space.Egress))); err != nil {
			return job, &notStarted{causeStart, err}
		}
	case is.kind != "": // a task of a kind is assigned only to nodes and workers that have the kind
		return nil, &notStarted{causeStart, fmt.Errorf("task %s is of kind %s, for which this node has no extension", a.Name, is.kind)}
	}
	job.Origin = is.origin
	if job.Dir, err = remote.Folder(is.origin, is.dir); err != nil {
		return job, &notStarted{causeStart, err}
	}
	if job.Dir == "" && job.HTTP == nil {
		files, err := is.version.files()
		if err != nil {
			return job, fmt.Errorf("read the workflow's files: %w", err)
		}
		job.Files = func() ([]worker.File, error) { return files, nil }
	}
	return job, is.recent()
}

// resolved is the part of a job that does not depend on the machine. The worker finds the folder itself.
type resolved struct {
	job     *worker.Job
	version *version
	origin  string // the folder of the workflow file; "" if the attempt gets a fresh folder with the files
	task    int    // index of the task in version
	dir     string
	kind    string          // "" means a process
	input   json.RawMessage // the input of a task with a kind
	instant time.Time       // the logical instant of the run
	errand  bool            // version and task are those of the task whose handle is released
	space   store.Namespace // the rules of the namespace
	rules   engine.Reading  // the reading of space
}

// resolve makes the job of an assignment for a worker with these traits, without a folder. If quick is true
// and a secret requires a call to a provider, its error wraps provider.ErrSlow.
func (r *Resolver) resolve(ctx context.Context, a *engine.Assignment, traits *dag.Traits, quick bool) (*resolved, error) {
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
	if v.releases() {
		return r.errand(ctx, a, row, traits, quick)
	}
	is, err := r.build(ctx, a, row, traits, quick)
	if err != nil {
		return nil, err
	}
	if t := is.task; len(v.Tasks[t].Inputs) > 0 {
		sources, err := r.sources(ctx, v, t, a.Run, a.Graph)
		if err != nil {
			return nil, err
		}
		is.job.Inputs = &inputsOf{kept: r.cfg.Kept, sources: sources}
	}
	allowHandle(is.job, v.Tasks[is.task].Release)
	if is.job.Handle && a.Token.Number() > 1 {
		if is.job.Earlier, err = r.earlier(ctx, a); err != nil {
			return nil, err
		}
	}
	return is, nil
}

// build makes the job of an assignment from its definition.
func (r *Resolver) build(ctx context.Context, a *engine.Assignment, row *dag.RunRow, traits *dag.Traits, quick bool) (*resolved, error) {
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
	process, err := v.processOf(t, traits)
	if err != nil {
		return nil, err
	}
	used := secretsOf{ctx: ctx, from: r.cfg.Secrets, params: r.cfg.Params, namespace: v.Namespace, workflow: v.Name, quick: quick}
	res, err := v.Resolve(t, workflow.Inputs{Item: a.Graph.Item(a.Task),
		RunID: a.Run.String(), Version: int(a.Version), Attempt: int(a.Token), Params: row.Params, TriggerTime: row.Instant().Time(),
		Secret:  used.value,
		Process: process != nil,
		Unseal:  used.param,
		Outputs: func(task string) (json.RawMessage, dag.TaskState) { o := known[task]; return o.json, o.state },
	})
	if err != nil {
		return nil, used.hide(err)
	}
	p := v.Policy(t)
	job := &worker.Job{
		Key: worker.Key{Namespace: v.Namespace, Workflow: v.Name, RunID: a.Run.String(), Task: a.Name,
			Attempt: int(a.Token), Ref: int64(a.Task), IdempotencyKey: idempotencyKey(a, cmp.Or(a.Generation, row.Generation)), Traceparent: r.traceparent(row, a)},
		Env: environment(res.Env), Timeout: p.Timeout, KillGrace: p.KillGrace, WarnOnTimeout: p.WarnOnTimeout,
		OutputTypes: v.types[t], LockToken: a.LockToken, Secrets: used.values,
	}
	need := p.Place.Need()
	job.CPU, job.Memory = need.CPU, need.Memory
	job.Isolation, job.IsolationDefault = dag.Stricter(a.Place.Isolation(), p.Place.Isolation()), r.cfg.Isolation
	job.Artifacts, job.ArtifactsIn = v.Tasks[t].Artifacts, r.cfg.Artifacts
	if reach := v.Reach(t); reach != nil {
		job.Access = &worker.Access{Read: reach.Read, Write: reach.Write}
	}
	setRun(job, &res.Run)
	if err := r.request(ctx, &res, job, &used); err != nil {
		return nil, err
	}
	if err := r.process(ctx, process, v, t, &envelope{job, res.Input, row, &used}); err != nil {
		return nil, err
	}
	if size := job.Size() + len(res.Input); size > worker.SizeMax { // the job of a process has the input twice
		return nil, &notStarted{causeStart, fmt.Errorf("command, environment, request and secrets of the task have %d bytes, the limit is %d: "+
			"pass large values in files (files, inputs, artifacts)", size, worker.SizeMax)}
	}
	return r.narrowed(ctx, &resolved{job: job, version: v, task: t, origin: v.originOf(t), dir: res.Dir, kind: v.Tasks[t].Kind, input: res.Input, instant: row.Instant().Time()})
}

// traceparent returns the trace context for the processes of an attempt. If it returns "", the worker derives
// one from the run.
func (r *Resolver) traceparent(row *dag.RunRow, a *engine.Assignment) string {
	if r.cfg.Traceparent == nil {
		return row.Trace()
	}
	return r.cfg.Traceparent(&row.Header, a.Task, a.Token)
}

// originOf returns the folder of a task's workflow file. For a boxed task it returns "".
func (v *version) originOf(task int) string {
	if v.Tasks[task].Boxed() {
		return ""
	}
	return v.Origin
}

// graphFor sets the graph of an assignment that came from another node, and so without a graph. If the row
// was read before the task became a part of the run, graphFor reads the row again.
func (r *Resolver) graphFor(ctx context.Context, a *engine.Assignment, row *dag.RunRow) error {
	g, err := r.cfg.Engine().RunGraph(row)
	if err == nil && int(a.Task) >= g.Len() {
		var now dag.RunRow
		if now, err = r.cfg.Store.Run(ctx, a.Run); err == nil {
			g, err = r.cfg.Engine().RunGraph(&now)
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

// position returns the index of a task in its definition, which is the same as in the graph.
func (v *version) position(a *engine.Assignment) (int, bool) {
	if t := int(a.Task); t < len(v.Tasks) && v.Tasks[t].Name == a.Name {
		return t, true
	}
	if of, ok := a.Graph.InstanceOf(a.Task); ok {
		return int(of), int(of) < len(v.Tasks)
	}
	return v.Find(a.Name)
}

// idempotencyKey returns a key that is the same for all attempts of a task within a generation. So a server
// can recognize an effect of an earlier attempt. After a recover or rerun, the effect is wanted again, so a
// new generation has another key.
func idempotencyKey(a *engine.Assignment, generation int32) string {
	key := a.Run.String() + "/" + a.Name
	if generation > 1 {
		key += "/" + strconv.Itoa(int(generation))
	}
	return key
}

// remains is the data of a task that expressions can read.
type remains struct {
	json  json.RawMessage
	state dag.TaskState
}

// outputs reads the outputs that the expressions of a task use. If they use none, it reads nothing.
func (r *Resolver) outputs(ctx context.Context, a *engine.Assignment, names []string) (map[string]remains, error) {
	if len(names) == 0 {
		return nil, nil
	}
	known := make(map[string]remains, len(names))
	var underived []string
	for _, name := range names {
		t, ok := a.Graph.Find(name)
		if !ok {
			return nil, &notStarted{causeExpression, fmt.Errorf("the task %q does not exist, so its outputs cannot be read", name)}
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

// lastOf returns the state of a task from its newest attempt, if that attempt determines the state.
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

// derive sets the states of tasks without an attempt: skipped, upstream_failed, finally failed.
func (r *Resolver) derive(ctx context.Context, a *engine.Assignment, names []string, known map[string]remains) error {
	row, err := r.cfg.Store.Run(ctx, a.Run)
	if err != nil {
		return fmt.Errorf("read the run: %w", err)
	}
	g, views, err := r.cfg.Engine().Standing(ctx, &row)
	if err != nil {
		return fmt.Errorf("read the states of its tasks: %w", err)
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

func environment(env []workflow.KV) []string {
	all := make([]string, len(env))
	for i, kv := range env {
		all[i] = kv.Name + "=" + kv.Value
	}
	return all
}
