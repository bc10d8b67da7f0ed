package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// Rows contains, decoded, everything that a store has about one run. It shows the stored values and derives
// as little as possible, so that a person can debug a database, or a copy of it, without a server.
type Rows struct {
	Run StoredRun `json:"run"`
	// Why contains the reasons for the state of the run that follow from the rows alone. For example, the
	// order of ready runs is only in the memory of a node.
	Why      []StoredReason  `json:"why"`
	Tasks    []StoredTask    `json:"tasks"`    // the tasks of the run's graph, with the present instances
	Attempts []StoredAttempt `json:"attempts"` // sorted by task, then token
	History  []StoredEvent   `json:"history"`  // sorted by transaction
	// Damage names the values that could not be decoded. All other values are shown.
	Damage []string `json:"damage,omitempty"`
}

// StoredReason is one reason for the state of a run.
type StoredReason struct {
	Kind     string    `json:"kind"`
	Code     string    `json:"code"` // the code, as in docs/errors.md
	What     string    `json:"what"`
	Holder   string    `json:"holder,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Unblocks string    `json:"unblocks,omitempty"`
	Expected time.Time `json:"expected,omitzero"`
}

// StoredRun is the row of a run. Times that are not set are left out.
type StoredRun struct {
	ID         string      `json:"id"`
	Shard      dag.ShardID `json:"shard"`
	Workflow   string      `json:"workflow"` // NAMESPACE/NAME
	WorkflowID int64       `json:"workflow_id"`
	Version    int32       `json:"version"`
	State      string      `json:"state"`
	Intent     string      `json:"intent"`
	Generation int32       `json:"generation"`
	Priority   string      `json:"priority"`
	Origin     string      `json:"origin"`
	User       string      `json:"user,omitempty"`
	Key        string      `json:"key,omitempty"`
	Cause      string      `json:"cause,omitempty"`
	Message    string      `json:"message,omitempty"`
	Created    time.Time   `json:"created,omitzero"`
	Split      time.Time   `json:"split,omitzero"`
	Started    time.Time   `json:"started,omitzero"`
	Finished   time.Time   `json:"finished,omitzero"`
	Leader     string      `json:"leader,omitempty"` // the handler that made the tasks of the run
	Params     string      `json:"params,omitempty"` // JSON
	// Fire is the trigger or the other run that started this run, with the trace context of the caller. It is
	// nil if a person started the run.
	Fire   *StoredFire   `json:"fire,omitempty"`
	Claim  *StoredClaim  `json:"claim,omitempty"`
	Shares []StoredShare `json:"shares,omitempty"` // one for each queue that tasks of the run name
	// OwnGraph is the size of the graph that the run adds to the graph of its version, in bytes.
	OwnGraph int `json:"own_graph_bytes,omitempty"`
	// Ended is true if the states of the run's tasks are packed in its row (column final). Base is true if
	// the row has the states of the previous generation.
	Ended bool `json:"final"`
	Base  bool `json:"base"`
}

// StoredFire describes what started a run.
type StoredFire struct {
	Trigger  string    `json:"trigger,omitempty"`
	Instant  time.Time `json:"instant,omitzero"`
	StartBy  time.Time `json:"start_by,omitzero"`
	Backfill int64     `json:"backfill,omitempty"`
	Key      string    `json:"key,omitempty"` // the id of an event
	Of       string    `json:"rerun_of,omitempty"`
	From     string    `json:"from,omitempty"`   // the task at which the run begins
	Parent   string    `json:"parent,omitempty"` // RUN/#TASK: the task that called this run
	Trace    string    `json:"trace,omitempty"`  // the trace context of its caller
}

// StoredClaim is the queue and locks that a run requests or holds.
type StoredClaim struct {
	Queue   string    `json:"queue,omitempty"`
	Key     string    `json:"key,omitempty"`
	Locks   []string  `json:"locks,omitempty"`
	Stage   string    `json:"stage"`
	Level   string    `json:"level,omitempty"`
	Asked   time.Time `json:"asked,omitzero"`
	Grant   int64     `json:"grant,omitempty"`
	Granted time.Time `json:"granted,omitzero"`
	Family  string    `json:"family,omitempty"` // the run whose locks this run uses
}

// StoredShare describes the slots that the tasks of a run have in one queue, and their requests.
type StoredShare struct {
	Queue string    `json:"queue"`
	Key   string    `json:"key,omitempty"`
	Life  int32     `json:"generation"`
	Got   int64     `json:"got"`
	Back  int64     `json:"given_back"`
	Need  int64     `json:"needed"`
	Asked time.Time `json:"asked,omitzero"`
}

// StoredTask is a task in the form in which rows alone show it.
type StoredTask struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
	State  string `json:"state,omitempty"` // "" if the tasks are not made yet, or the state cannot be derived
	Needs  []int  `json:"needs,omitempty"` // numbers of tasks
	Place  string `json:"place,omitempty"`
	Queue  string `json:"queue,omitempty"`
}

// StoredAttempt is an attempt, with the place in which the store has it.
type StoredAttempt struct {
	Task  int    `json:"task"` // the number of the task; -1 means Leader work
	Name  string `json:"name,omitempty"`
	Token string `json:"token"`
	State string `json:"state"`
	// Kept is "row" if the attempt has a row of its own, and "history" if the engine packed the attempt into
	// the history of its run. After the first 1,000 plain attempts, it is "either", because further attempts
	// are not looked up.
	Kept       string    `json:"kept"`
	Generation int32     `json:"generation"`
	Handler    string    `json:"handler"`
	Cause      string    `json:"cause,omitempty"`
	Message    string    `json:"message,omitempty"`
	Exit       string    `json:"exit,omitempty"` // exit code or signal
	Assigned   time.Time `json:"assigned,omitzero"`
	Started    time.Time `json:"started,omitzero"`
	Finished   time.Time `json:"finished,omitzero"`
	RetryAt    time.Time `json:"retry_at,omitzero"`
	Outputs    int       `json:"outputs_bytes,omitempty"`
}

// StoredEvent describes the change of a run by one transaction of its shard.
type StoredEvent struct {
	Seq     int64          `json:"seq"`
	At      time.Time      `json:"at"`
	Records []StoredRecord `json:"records"`
}

// StoredRecord is one record of an event.
type StoredRecord struct {
	Kind    string `json:"kind"`
	Task    string `json:"task,omitempty"`
	Token   string `json:"token,omitempty"`
	Handler string `json:"handler,omitempty"`
	State   string `json:"state,omitempty"`
	Exit    string `json:"exit,omitempty"`
	Count   int32  `json:"count,omitempty"`
	Actor   string `json:"actor,omitempty"`
	Text    string `json:"text,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

const (
	// rowsEventsMax bounds the number of transactions whose records are shown, and eventsPage the number in
	// one read.
	rowsEventsMax = 100_000
	eventsPage    = 1000
	// keptLooksMax bounds the number of plain attempts that are looked up one by one.
	keptLooksMax = 1000
	// These words name the place of an attempt: a row of its own, the history, or either.
	ownRow, inHistory, either = "row", "history", "either"
)

// Rows reads everything that is stored about a run. It returns ErrNotFound if the run does not exist. Rows
// reads the parts one after the other. If the states of the tasks contradict each other because the run
// changed during the read, Rows reads again.
func (rd *Reader) Rows(ctx context.Context, id dag.RunID) (Rows, error) {
	for n := 0; ; n++ {
		rows, was, err := rd.rowsOnce(ctx, id)
		if err != nil || len(rows.Damage) == 0 || n == rereads {
			return rows, err
		}
		if is, err := rd.store.Run(ctx, id); err != nil || reflect.DeepEqual(is, was) {
			return rows, nil
		}
	}
}

func (rd *Reader) rowsOnce(ctx context.Context, id dag.RunID) (Rows, dag.RunRow, error) {
	row, err := rd.store.Run(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return Rows{}, row, errkind.NoRun(id)
	}
	if err != nil {
		return Rows{}, row, errkind.FromStore("run "+id.String(), err)
	}
	read := row
	d := decoding{rd: rd}
	if err := d.run(ctx, &row); err != nil {
		return d.Rows, read, err
	}
	if d.g, err = rd.RunGraph(&row); err != nil {
		if errors.Is(err, errkind.ErrUnavailable) {
			return d.Rows, read, err
		}
		d.damaged("graph", err)
	}
	attempts, whole, err := d.attempts(ctx, id)
	if err != nil {
		return d.Rows, read, err
	}
	d.tasks(&row, attempts, whole)
	if err := d.why(ctx, id); err != nil {
		return d.Rows, read, err
	}
	return d.Rows, read, d.history(ctx, id)
}

// decoding is the state of one call of Rows.
type decoding struct {
	Rows
	rd *Reader
	g  *dag.Graph // nil if the graph cannot be read
}

func (d *decoding) damaged(what string, err error) {
	d.Damage = append(d.Damage, what+": "+err.Error())
}

func (d *decoding) run(ctx context.Context, row *dag.RunRow) error {
	w, err := d.rd.WorkflowByID(ctx, row.Workflow)
	if err != nil && !errors.Is(err, errkind.ErrNotFound) {
		return err
	}
	leader, err := d.handler(ctx, row.Leader)
	if err != nil {
		return err
	}
	d.Run = StoredRun{ID: row.ID.String(), Shard: row.Shard, Workflow: w.Namespace + "/" + w.Name, WorkflowID: int64(row.Workflow),
		Version: row.Version, State: row.State.String(), Intent: row.Intent.String(), Generation: row.Generation,
		Priority: row.Priority.String(), Origin: string(row.Origin), User: row.User, Key: row.Key, Cause: string(row.Cause), Message: row.Message,
		Created: instant(row.Created), Split: instant(row.SplitAt), Started: instant(row.StartedAt), Finished: instant(row.FinishedAt),
		Leader: leader, Params: d.storedParams(ctx, row), Fire: storedFire(row.Fire), Claim: storedClaim(row.Claim),
		OwnGraph: len(row.Graph), Ended: row.Final != nil, Base: row.Base != nil}
	for i := range row.Shares {
		s := &row.Shares[i]
		d.Run.Shares = append(d.Run.Shares, StoredShare{s.Queue, s.Key, s.Life, s.Got, s.Back, s.Need, instant(s.Asked)})
	}
	return nil
}

func storedFire(f *dag.Fire) *StoredFire {
	if f == nil {
		return nil
	}
	s := &StoredFire{Trigger: f.Trigger, Instant: instant(f.Instant), StartBy: instant(f.StartBy), Backfill: f.Backfill, Key: f.Key, From: f.From, Trace: f.Trace}
	if !f.Of.IsZero() {
		s.Of = f.Of.String()
	}
	if f.Parent != nil {
		s.Parent = fmt.Sprintf("%s/#%d", f.Parent.Up().Run, f.Parent.Task)
	}
	return s
}

func storedClaim(c *dag.Claim) *StoredClaim {
	if c == nil {
		return nil
	}
	s := &StoredClaim{Queue: c.Queue, Key: c.Key, Locks: c.Locks, Stage: c.Stage.String(), Asked: instant(c.Asked), Grant: c.Grant, Granted: instant(c.Granted)}
	if c.Queue != "" {
		s.Level = c.Level.String()
	}
	if !c.Family.IsZero() {
		s.Family = c.Family.String()
	}
	return s
}

// handler returns the text for a handler: its node and its public id.
func (d *decoding) handler(ctx context.Context, id dag.HandlerID) (string, error) {
	if id == 0 {
		return "", nil
	}
	h, err := d.rd.HandlerByID(ctx, id)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %s (%s)", id, h.Node, store.PublicID(h.UUID)), nil
}

// attempts reads the attempts of the run. whole is false if some cannot be decoded.
func (d *decoding) attempts(ctx context.Context, id dag.RunID) (all []dag.AttemptRow, whole bool, err error) {
	all, err = d.rd.store.Attempts(ctx, store.AttemptQuery{Run: id, Outputs: true})
	if errors.Is(err, store.ErrUnavailable) {
		return nil, false, errkind.FromStore("attempts of run "+id.String(), err)
	}
	if whole = err == nil; !whole {
		d.damaged("attempts", err)
	}
	looks := 0
	for i := range all {
		a := &all[i]
		by, err := d.handler(ctx, a.Handler)
		if err != nil {
			return nil, false, err
		}
		s := StoredAttempt{Task: int(a.Task), Name: d.name(a.Task), Token: a.Token.Name(), State: a.State.String(), Kept: ownRow,
			Generation: a.Generation, Handler: by, Cause: string(a.Cause), Message: a.Message, Exit: exit(a.Exited, a.ExitCode, a.Signal),
			Assigned: instant(a.Assigned), Started: instant(a.Started), Finished: instant(a.Finished), RetryAt: instant(a.RetryAt), Outputs: len(a.Outputs)}
		if packed.Plain(a) {
			if s.Kept, err = d.kept(ctx, a, &looks); err != nil {
				return nil, false, err
			}
		}
		d.Attempts = append(d.Attempts, s)
	}
	return all, whole, nil
}

// kept finds out whether a plain attempt has a row of its own.
func (d *decoding) kept(ctx context.Context, a *dag.AttemptRow, looks *int) (string, error) {
	if *looks++; *looks > keptLooksMax {
		return either, nil
	}
	rows, err := d.rd.Begun(ctx, a.Run, a.Task)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(rows, func(r dag.AttemptRow) bool { return r.Token == a.Token }) {
		return ownRow, nil
	}
	return inHistory, nil
}

// tasks derives the states of the tasks, unless some attempts could not be read.
func (d *decoding) tasks(row *dag.RunRow, attempts []dag.AttemptRow, whole bool) {
	if d.g == nil {
		return
	}
	var views []dag.TaskView
	if row.SplitAt != 0 && row.Cause != dag.CauseCorrupt && whole {
		var err error
		if p := errkind.Guarded(func() { views, err = dag.Derive(d.g, row, attempts) }); p != nil || err != nil {
			d.damaged("states of tasks", cmp.Or(err, p))
			views = nil
		}
	}
	for t := range dag.TaskID(d.g.Len()) {
		s := StoredTask{Number: int(t), Name: d.g.Name(t), Queue: d.g.Policy(t).Queue}
		if views != nil {
			s.State = views[t].State.String()
		}
		for _, n := range d.g.Needs(t) {
			s.Needs = append(s.Needs, int(n))
		}
		if p := d.g.Policy(t).Place; p != dag.Anywhere {
			s.Place = p.String()
		}
		d.Tasks = append(d.Tasks, s)
	}
}

// why explains the state of the run, unless its rows are too damaged for that.
func (d *decoding) why(ctx context.Context, id dag.RunID) error {
	var x Explanation
	var err error
	d.Why = []StoredReason{}
	if p := errkind.Guarded(func() { x, err = d.rd.Explain(ctx, id, "") }); p != nil || err != nil {
		if errors.Is(err, errkind.ErrUnavailable) {
			return err
		}
		d.damaged("explanation", cmp.Or(err, p))
		return nil
	}
	for i := range x.Reasons {
		r := &x.Reasons[i]
		d.Why = append(d.Why, StoredReason{r.Kind, r.Code, r.What, r.Holder, instant(r.Since), r.Unblocks, instant(r.Expected)})
	}
	return nil
}

func (d *decoding) history(ctx context.Context, id dag.RunID) error {
	for after := int64(0); len(d.History) < rowsEventsMax; {
		page, err := d.rd.store.Events(ctx, id, after, eventsPage)
		if errors.Is(err, store.ErrUnavailable) {
			return errkind.FromStore("history of run "+id.String(), err)
		}
		if err != nil {
			d.damaged(fmt.Sprintf("history after transaction %d", after), err)
			return nil
		}
		for i := range page {
			after = page[i].Seq
			e := StoredEvent{Seq: after, At: page[i].At.Time().UTC()}
			records, err := dag.UnpackRecords(page[i].Records)
			if err != nil {
				d.damaged(fmt.Sprintf("history of transaction %d", after), err)
			}
			for _, r := range records {
				by, err := d.handler(ctx, r.Handler)
				if err != nil {
					return err
				}
				s := StoredRecord{Kind: r.Kind.String(), Task: d.name(r.Task), Handler: by, Exit: exit(r.Exited, r.ExitCode, ""),
					Count: r.Count, Actor: r.Actor, Text: r.Text, Reason: r.Reason}
				if r.Token != 0 {
					s.Token = r.Token.Name()
				}
				if r.Kind == dag.RecEnded {
					s.State = r.State.String()
				}
				e.Records = append(e.Records, s)
			}
			d.History = append(d.History, e)
		}
		if len(page) < eventsPage {
			break
		}
	}
	if len(d.History) >= rowsEventsMax {
		d.damaged("history", fmt.Errorf("only the first %d transactions are shown", rowsEventsMax))
	}
	sort.SliceStable(d.History, func(i, j int) bool { return d.History[i].Seq < d.History[j].Seq })
	return nil
}

// name returns the name of a task. For the run itself it returns "".
func (d *decoding) name(t dag.TaskID) string {
	if t == dag.LeaderTask {
		return ""
	}
	return nameIn(d.g, t)
}

func instant(at dag.Micros) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return at.Time().UTC()
}

func exit(exited bool, code int32, signal string) string {
	switch {
	case exited:
		return fmt.Sprintf("exit %d", code)
	case signal != "":
		return signal
	}
	return ""
}
