// Package memory is an engine of the store that keeps its rows in maps and sorted slices. It fulfils the same
// contract as the durable engines (storetest checks all of them), so the layers above are tested and
// simulated on it instead of on a mock. A test can also decide which operations fail and how, and can set the
// clock.
//
// For callers that break the contract, this is the strictest engine. If an attempt, update or event belongs
// to a run that does not exist, or to a shard without a fence, Commit returns ErrFenced.
package memory

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

const (
	pageMax    = 1_000    // items on a page of runs for people, and on a page of other lists if no limit is given
	lookMax    = 10_000   // the number of rows that one query for people reads
	keptMax    = 64 << 10 // the number of bytes of outputs that Load returns
	rowMax     = 64 << 20 // the number of bytes of texts and blobs in one row
	formatOnly = 1
)

// Options of a new store. The zero value is a store of one shard on the machine's clock
// in which nothing fails.
type Options struct {
	Shards int               // 0 means 1
	Clock  func() dag.Micros // the time that Acquire, Commit and Register use
	Fault  func(Op) Outcome  // see Op
}

// Store is the engine. Its content ends with the process.
type Store struct {
	clock   func() dag.Micros
	fault   func(Op) Outcome
	cluster string

	mu         sync.RWMutex // protects the following fields
	closed     bool
	shards     []shard
	handlers   []store.Handler // handler n is at index n-1
	members    map[dag.HandlerID]store.Member
	orders     []store.Order // sorted by node and What
	runs       map[dag.RunID]*run
	all        ids
	active     []ids // unfinished runs by shard
	byWorkflow map[dag.WorkflowID]*ids
	byUser     map[string]*ids
	byKey      map[runKey]dag.RunID
	workflows  map[dag.WorkflowID]store.Workflow
	names      map[workflowName]dag.WorkflowID // the workflows that are not deleted
	versions   map[dag.WorkflowID][]store.Version
	requests   map[requestKey]store.Request
	messages   []store.Message                 // sorted by ID
	lastID     int64                           // last ID of a message
	logs       map[store.LogID][]store.LogPart // the parts of each log, in their order
	tokens     []store.Token                   // token n is at index n-1
	queues     map[string]store.Queue
	classes    map[string]store.Class
	schedules
	eras
	rights
	rotations
	sessions
	secrets
	audits
	namespaces
	tallies
	traces
	alerts
	connections
	gitSources
	sentEvents
}

type shard struct {
	epoch, seq int64
	owner      dag.HandlerID
	wanted     dag.HandlerID
	watermark  dag.Micros
	shift      store.Shift
}

// run is a run with its attempts and events. The bytes behind its rows are never changed in place, so a copy
// of the slices is a snapshot.
type run struct {
	row      dag.RunRow
	attempts []dag.AttemptRow // sorted by task, then token
	events   []dag.EventRow   // sorted by seq
}

type (
	runKey struct {
		workflow dag.WorkflowID
		key      string
	}
	workflowName struct{ namespace, name string }
	requestKey   struct{ scope, key string }
)

var _ store.Store = (*Store)(nil)

// New makes an empty store.
func New(o Options) *Store {
	if o.Shards <= 0 {
		o.Shards = 1
	}
	if o.Clock == nil {
		o.Clock = func() dag.Micros { return dag.Micro(time.Now()) }
	}
	if o.Fault == nil {
		o.Fault = func(Op) Outcome { return OK }
	}
	var id dag.RunID
	rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	s := &Store{
		clock: o.Clock, fault: o.Fault, cluster: id.String(),
		shards: make([]shard, o.Shards), active: make([]ids, o.Shards),
		runs: map[dag.RunID]*run{}, byWorkflow: map[dag.WorkflowID]*ids{}, byUser: map[string]*ids{},
		byKey: map[runKey]dag.RunID{}, workflows: map[dag.WorkflowID]store.Workflow{},
		names: map[workflowName]dag.WorkflowID{}, versions: map[dag.WorkflowID][]store.Version{},
		requests: map[requestKey]store.Request{}, members: map[dag.HandlerID]store.Member{}, queues: map[string]store.Queue{}, classes: map[string]store.Class{}, logs: map[store.LogID][]store.LogPart{}, schedules: newSchedules(),
	}
	s.eras, s.rights, s.rotations, s.sessions, s.secrets, s.audits, s.alerts, s.connections, s.namespaces, s.tallies, s.traces = eras{s: s}, rights{s: s, is: firstRights()}, rotations{s}, sessions{s: s}, newSecrets(s), audits{s: s}, newAlerts(s), newConnections(s), namespaces{s: s}, tallies{s: s, counts: map[store.TallyKey]store.TallyRow{}, marks: map[markKey]store.TallyMark{}}, traces{s: s, exported: map[dag.ShardID]store.TraceMark{}}
	s.sentEvents.s, s.gitSources = s, newGitSources(s)
	return s
}

// Acquire takes shards for a handler.
func (s *Store) Acquire(ctx context.Context, owner dag.HandlerID, shards []dag.ShardID) ([]store.Acquired, error) {
	op := Op{Kind: AcquireBefore, Owner: owner, Shards: shards}
	var got []store.Acquired
	err := s.write(ctx, op, AcquireAfter, func() error {
		for _, id := range shards {
			if !hasShard(s, id) {
				return fmt.Errorf("acquire shard %d: %w", id, store.ErrNotFound)
			}
		}
		now := s.clock()
		for _, id := range shards {
			sh := &s.shards[id]
			if sh.epoch%store.TakesOfEra == store.TakesOfEra-1 {
				return fmt.Errorf("acquire shard %d: %w", id, store.ErrTakes)
			}
			sh.epoch++
			got = append(got, store.Acquired{Fence: store.Fence{Shard: id, Epoch: sh.epoch, Seq: sh.seq}, Now: now, Previous: sh.owner, Watermark: sh.watermark})
			sh.owner = owner
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

func hasShard(s *Store, id dag.ShardID) bool { return id >= 0 && int(id) < len(s.shards) }

// Register records a process.
func (s *Store) Register(ctx context.Context, uuid, node string) (store.Handler, error) {
	var h store.Handler
	err := s.write(ctx, Op{Kind: RegisterBefore}, RegisterAfter, func() error {
		if err := checkTexts("handler", uuid, node); err != nil {
			return err
		}
		if slices.ContainsFunc(s.handlers, func(h store.Handler) bool { return h.UUID == uuid }) {
			return refused("handler %s exists", uuid)
		}
		h = store.Handler{ID: dag.HandlerID(len(s.handlers) + 1), UUID: uuid, Node: node, Started: s.clock()}
		s.handlers = append(s.handlers, h)
		return nil
	})
	if err != nil {
		return store.Handler{}, err
	}
	return h, nil
}

// Handlers reads processes by their numbers. It leaves out unknown numbers.
func (s *Store) Handlers(ctx context.Context, ids []dag.HandlerID) ([]store.Handler, error) {
	var found []store.Handler
	err := s.read(ctx, Read, func() error {
		for _, id := range ids {
			if id >= 1 && int(id) <= len(s.handlers) {
				found = append(found, s.handlers[id-1])
			}
		}
		return nil
	})
	return found, err
}

// Info describes the store.
func (s *Store) Info(ctx context.Context) (store.Info, error) {
	info := store.Info{Engine: "memory", Location: "memory", Cluster: s.cluster, Format: formatOnly, Known: formatOnly}
	err := s.read(ctx, Read, func() error {
		info.Shards = len(s.shards)
		for _, r := range s.runs {
			info.Bytes += r.bytes()
		}
		return nil
	})
	if err != nil {
		return store.Info{}, err
	}
	return info, nil
}

// Unfinished implements store.Store.
func (s *Store) Unfinished(ctx context.Context) (map[string]int, error) {
	runs := map[string]int{}
	return runs, s.read(ctx, Read, func() error {
		for _, active := range s.active {
			for _, id := range active {
				runs[s.runs[id].row.State.String()]++
			}
		}
		return nil
	})
}

// Close makes every later call fail with ErrUnavailable.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
