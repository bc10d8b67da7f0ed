package server

import (
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// Cluster is what a server needs of the cluster of its node.
type Cluster interface {
	Members(ctx context.Context) ([]store.Member, []store.ShardRow, error)
	Move(ctx context.Context, shard dag.ShardID, to dag.HandlerID) error
	Order(ctx context.Context, o store.Order, stand bool) (bool, error)
	Orders(ctx context.Context) ([]store.Order, error)
	Clock(ctx context.Context) (dag.Micros, error)
	// Submit starts a run on a shard that another node owns, or that no node owns.
	Submit(ctx context.Context, s dag.ShardID, sub engine.Submission) (engine.Accepted, error)
	// Wake makes this node read the members at once.
	Wake()
}

// roll holds the members, as of one read.
type roll struct {
	now     dag.Micros
	members []store.Member
	shards  []store.ShardRow
}

func (s *Server) roll(ctx context.Context) (r roll, err error) {
	if r.members, r.shards, err = s.cfg.Cluster.Members(ctx); err == nil {
		r.now, err = s.cfg.Cluster.Clock(ctx)
	}
	return r, unread(err)
}

// unread gives the kind "unavailable" to an error of the store.
func unread(err error) error {
	if err == nil {
		return nil
	}
	f := failed(errkind.ErrUnavailable)
	f.Detail, f.cause = "the database does not answer", err
	return f
}

func (r *roll) named(name string) *store.Member {
	for i := range r.members {
		if r.members[i].Name == name {
			return &r.members[i]
		}
	}
	return nil
}

// nameOf returns the name of a member, or "" if no member has that handler.
func (r *roll) nameOf(h dag.HandlerID) string {
	for i := range r.members {
		if r.members[i].Handler == h {
			return r.members[i].Name
		}
	}
	return ""
}

// rolesOf returns the roles of a member. A node without slots runs no tasks itself.
func (s *Server) rolesOf(m *store.Member) []string {
	switch {
	case m.Worker:
		return []string{"worker"}
	case m.Slots == 0:
		return []string{"api", "scheduler"}
	}
	return []string{"api", "scheduler", "worker"}
}

func (s *Server) roles() []string { return append([]string{}, s.cfg.Node.Roles...) }

// alone returns this node, which is the only one.
func (s *Server) alone(ctx context.Context) (api.Node, error) {
	info, err := s.engine.Info(ctx)
	if err != nil {
		return api.Node{}, err
	}
	h := s.engine.Handler()
	n := api.Node{Name: s.cfg.Node.Name, Handler: store.PublicID(h.UUID), State: s.state(), Version: s.cfg.Version, Roles: s.roles(),
		Address: textOrNull(s.cfg.Listen), Groups: append([]string{}, s.engine.Traits().Groups...), Labels: labelsOf(s.engine.Traits()), Slots: s.slots(), Resources: resources(s.engine.Room()), Shards: api.Shards{Owned: info.Shards, List: []int32{}, Moved: []int32{}, Costs: []api.ShardCost{}, Shifted: []api.ShardShift{}},
		StartedAt: instant(h.Started)}
	if n.State == engine.StateRunning && s.engine.IsShut() != "" {
		n.State = stateFull
	}
	for i := range info.Shards {
		n.Shards.List = append(n.Shards.List, int32(i))
	}
	return n, nil
}

// memberOf shows a member of the cluster. For this node, it shows the state in memory, which is newer than
// the row.
func (s *Server) memberOf(r *roll, m *store.Member) api.Node {
	seen := instant(m.Seen)
	n := api.Node{Name: m.Name, Handler: store.PublicID(m.UUID), State: stateOf(m), Cordoned: m.Cordoned, Stopped: m.Stopped, Version: m.Version,
		Roles: s.rolesOf(m), Address: textOrNull(m.Address), Home: textOrNull(r.nameOf(m.Home)), Groups: append([]string{}, m.Traits.Groups...),
		Labels: labelsOf(m.Traits), Slots: api.Slots{Total: int(m.Slots), Busy: int(m.Busy)}, Resources: resources(m.Traits.Room, m.Traits.Used),
		Shards:    api.Shards{List: []int32{}, Moved: []int32{}, Costs: []api.ShardCost{}, Shifted: []api.ShardShift{}},
		StartedAt: instant(m.Started), SeenAt: &seen, Lag: math.Round(float64(max(r.now-m.Seen, 0))/1e3) / 1e3}
	for i := range r.shards {
		if r.shards[i].Owner == m.Handler {
			n.Shards.List = append(n.Shards.List, int32(r.shards[i].ID))
		}
		if r.shards[i].Wanted == m.Handler {
			n.Shards.Moved = append(n.Shards.Moved, int32(r.shards[i].ID))
		}
	}
	n.Shards.Owned = len(n.Shards.List)
	r.loadOf(&n, m)
	if m.Handler == s.engine.Handler().ID {
		n.Slots, n.Resources = s.slots(), resources(s.engine.Room())
		if n.State == store.MemberActive && s.engine.IsShut() != "" {
			n.State = stateFull
		}
		if state := s.state(); state != engine.StateRunning {
			n.State = state
		}
	}
	return n
}

func labelsOf(t store.Traits) map[string]string {
	all := maps.Clone(t.Labels)
	if all == nil {
		all = map[string]string{}
	}
	return all
}

func resources(total, used dag.Need) api.Resources {
	return api.Resources{CPU: api.Cores{Total: float64(total.CPU) / 1e3, Used: float64(used.CPU) / 1e3},
		Memory: api.Bytes{Total: total.Memory, Used: used.Memory}}
}

// stateFull is the state of a node or worker whose disk is too full for attempts.
const stateFull = "full"

// state returns the state of this node: leaving while the node waits for running attempts, otherwise the
// state of the engine.
func (s *Server) state() string {
	state := s.engine.State()
	if state == engine.StateRunning && s.cfg.Leaving != nil && s.cfg.Leaving() {
		return store.MemberLeaving
	}
	return state
}

func stateOf(m *store.Member) string {
	switch {
	case m.State == store.MemberLeaving:
		return m.State
	case m.Cordoned && m.State == store.MemberDrained:
		return m.State
	case m.Cordoned:
		return "cordoned"
	case m.Stopped:
		return "stopped"
	case m.Traits.Full:
		return stateFull
	}
	return store.MemberActive
}

func (s *Server) nodes(ctx context.Context) ([]api.Node, error) {
	if s.cfg.Cluster == nil {
		return nodeWithWorkers(ctx, s)
	}
	r, err := s.roll(ctx)
	if err != nil {
		return nil, err
	}
	nodes := make([]api.Node, len(r.members))
	for i := range r.members {
		nodes[i] = s.memberOf(&r, &r.members[i])
	}
	see(s, &r, nodes)
	sort.Slice(nodes, func(i, j int) bool { return nodes[i].Name < nodes[j].Name })
	return nodes, nil
}

// nodeWithWorkers returns the only node and its workers.
func nodeWithWorkers(ctx context.Context, s *Server) ([]api.Node, error) {
	n, err := s.alone(ctx)
	n.OrdersRefused = textOrNull(aloneRefuses(n.Name, false))
	if err != nil || s.cfg.Workers == nil {
		return []api.Node{n}, err
	}
	r := roll{members: s.cfg.Workers()}
	if r.now, err = s.engine.Clock(ctx); err != nil {
		return nil, err
	}
	nodes := []api.Node{n}
	for i := range r.members {
		if m := &r.members[i]; m.Worker {
			w := s.memberOf(&r, m)
			w.OrdersRefused = textOrNull(aloneRefuses(w.Name, true))
			nodes = append(nodes, w)
		}
	}
	sort.Slice(nodes, func(i, j int) bool { return nodes[i].Name < nodes[j].Name })
	return nodes, nil
}

// worksHere reports whether a worker with that name is attached to this node, which is alone.
func worksHere(s *Server, name string) bool {
	return s.cfg.Workers != nil && slices.ContainsFunc(s.cfg.Workers(), func(m store.Member) bool { return m.Worker && m.Name == name })
}

func (s *Server) listNodes(ctx context.Context, _ *struct{}) (*jsonOut[api.List[api.Node]], error) {
	nodes, err := s.nodes(ctx)
	if err != nil {
		return nil, err
	}
	return list(nodes, ""), nil
}

type nodeIn struct {
	Name string `path:"name" minLength:"1" maxLength:"100"`
}

func (s *Server) getNode(ctx context.Context, in *nodeIn) (*jsonOut[api.Node], error) {
	n, err := s.node(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	return &jsonOut[api.Node]{Body: n}, nil
}

func (s *Server) node(ctx context.Context, name string) (api.Node, error) {
	nodes, err := s.nodes(ctx)
	if err != nil {
		return api.Node{}, err
	}
	for i := range nodes {
		if nodes[i].Name == name {
			return nodes[i], nil
		}
	}
	return api.Node{}, noNode(name)
}

func noNode(name string) error { return notFound("there is no node %s", name) }

// clustered returns an error for a call that needs a cluster, if there is none.
func (s *Server) clustered(what string) error {
	if s.cfg.Cluster == nil {
		return fail(http.StatusConflict, api.ProblemConflict, "this node is alone: %s", what)
	}
	return nil
}

// aloneRefuses says why a node that is alone accepts no order for itself or for one of its workers.
func aloneRefuses(name string, worker bool) string {
	if worker {
		return "this node is alone, and keeps no orders to its workers; to end worker " + name + ", stop its process, and its running attempts finish"
	}
	return "this node is alone: no other node can take its shards; to end the node, stop its process, and its running attempts finish"
}

// ordersNode sets or withdraws an order for a node. The node that gets the request only stores the order, and
// all nodes obey the stored orders.
func (s *Server) ordersNode(what string, stand bool) func(context.Context, *nodeIn) (*jsonOut[api.Node], error) {
	return func(ctx context.Context, in *nodeIn) (*jsonOut[api.Node], error) {
		if s.cfg.Cluster == nil {
			return nil, fail(http.StatusConflict, api.ProblemConflict, "%s", aloneRefuses(in.Name, worksHere(s, in.Name)))
		}
		if err := s.order(ctx, in.Name, what, stand); err != nil {
			return nil, err
		}
		n, err := s.node(ctx, in.Name)
		var gone *failure
		if errors.As(err, &gone) && gone.Status == http.StatusNotFound {
			n, err = s.absent(in.Name), nil
		}
		if err != nil {
			return nil, err
		}
		return &jsonOut[api.Node]{Body: n}, nil
	}
}

// absent shows a node that is not present and whose order was withdrawn.
func (s *Server) absent(name string) api.Node {
	return api.Node{Name: name, State: "absent", Roles: []string{}, Groups: []string{}, Labels: map[string]string{}, Shards: api.Shards{List: []int32{}, Moved: []int32{}, Costs: []api.ShardCost{}, Shifted: []api.ShardShift{}}}
}

// order stores an order. For a node that does not exist, an order can only be withdrawn.
func (s *Server) order(ctx context.Context, name, what string, stand bool) error {
	r, err := s.roll(ctx)
	if err != nil {
		return err
	}
	if r.named(name) == nil && (stand || !utf8.ValidString(name) || strings.ContainsRune(name, 0)) {
		return noNode(name)
	}
	changed, err := s.cfg.Cluster.Order(ctx, store.Order{Node: name, What: what, Actor: userOf(ctx)}, stand)
	if err != nil {
		return unread(err)
	}
	if !changed && r.named(name) == nil {
		return noNode(name)
	}
	if changed {
		s.log.Info("a user has given an order to a node", "code", "node_ordered", "node", name, "order", what, "stands", stand, "by", userOf(ctx))
		s.cfg.Cluster.Wake()
	}
	return nil
}

type moveShardIn struct {
	ID   int32 `path:"id" minimum:"0" maximum:"2147483647"`
	Body api.MoveRequest
}

func (s *Server) moveShard(ctx context.Context, in *moveShardIn) (*jsonOut[api.Shard], error) {
	return s.move(ctx, dag.ShardID(in.ID), in.Body.Node)
}

type moveWorkflowIn struct {
	WorkflowPath
	Body api.MoveRequest
}

func (s *Server) moveWorkflow(ctx context.Context, in *moveWorkflowIn) (*jsonOut[api.Shard], error) {
	w, err := s.workflow(ctx, &in.WorkflowPath)
	if err != nil {
		return nil, err
	}
	return s.move(ctx, w.Shard, in.Body.Node)
}

// nowhere is the target that withdraws a move.
const nowhere = "-"

func (s *Server) move(ctx context.Context, id dag.ShardID, node string) (*jsonOut[api.Shard], error) {
	if err := s.clustered("it owns every shard"); err != nil {
		return nil, err
	}
	r, err := s.roll(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(r.shards, func(sh store.ShardRow) bool { return sh.ID == id })
	if i < 0 {
		return nil, notFound("there is no shard %d; there are %d, from 0", id, len(r.shards))
	}
	to := dag.HandlerID(0)
	if node != nowhere {
		m := r.named(node)
		if m == nil {
			return nil, noNode(node)
		}
		if m.Worker {
			return nil, fail(http.StatusConflict, api.ProblemConflict, "%s is a worker: workers own no shards", node)
		}
		if !m.Able() {
			return nil, fail(http.StatusConflict, api.ProblemConflict, "node %s cannot own a shard: it is %s", node, stateOf(m))
		}
		to = m.Handler
	}
	if err := s.cfg.Cluster.Move(ctx, id, to); err != nil {
		return nil, unread(err)
	}
	s.cfg.Cluster.Wake()
	sh := &r.shards[i]
	return &jsonOut[api.Shard]{Body: api.Shard{ID: int32(id), Owner: textOrNull(r.nameOf(sh.Owner)), MovedTo: textOrNull(r.nameOf(to)),
		Workflows: sh.Workflows}}, nil
}

func (s *Server) getScheduler(ctx context.Context, _ *struct{}) (*jsonOut[api.Scheduler], error) {
	out := api.Scheduler{Nodes: []string{}}
	if s.cfg.Cluster == nil {
		return &jsonOut[api.Scheduler]{Body: out}, nil
	}
	orders, err := s.cfg.Cluster.Orders(ctx)
	if err != nil {
		return nil, unread(err)
	}
	for i := range orders {
		switch o := &orders[i]; {
		case o.What != store.OrderStop:
		case o.Node == "":
			out.Stopped, out.User, out.StoppedAt = true, textOrNull(o.Actor), instantOrNull(o.At)
		default:
			out.Nodes = append(out.Nodes, o.Node)
		}
	}
	return &jsonOut[api.Scheduler]{Body: out}, nil
}

type schedulerIn struct {
	Node string `query:"node" maxLength:"100" doc:"Absent: the whole cluster."`
}

func (s *Server) stopScheduler(ctx context.Context, in *schedulerIn) (*jsonOut[api.Scheduler], error) {
	if err := s.clustered("its scheduler stops with its process"); err != nil {
		return nil, err
	}
	if in.Node != "" {
		if err := s.order(ctx, in.Node, store.OrderStop, true); err != nil {
			return nil, err
		}
		return s.getScheduler(ctx, nil)
	}
	if _, err := s.cfg.Cluster.Order(ctx, store.Order{What: store.OrderStop, Actor: userOf(ctx)}, true); err != nil {
		return nil, unread(err)
	}
	s.log.Warn("a user has stopped the scheduler of the whole cluster; skein node start starts it again", "code", "cluster_stopped", "by", userOf(ctx))
	s.cfg.Cluster.Wake()
	return s.getScheduler(ctx, nil)
}

// startScheduler starts the scheduler on one node. For the whole cluster, it withdraws all stop orders.
func (s *Server) startScheduler(ctx context.Context, in *schedulerIn) (*jsonOut[api.Scheduler], error) {
	if err := s.clustered("its scheduler starts with its process"); err != nil {
		return nil, err
	}
	is, err := s.getScheduler(ctx, nil)
	if err != nil {
		return nil, err
	}
	if in.Node != "" {
		if is.Body.Stopped {
			return nil, fail(http.StatusConflict, api.ProblemConflict, "the whole cluster is stopped; leave out the node's name to start it")
		}
		if err := s.order(ctx, in.Node, store.OrderStop, false); err != nil {
			return nil, err
		}
		return s.getScheduler(ctx, nil)
	}
	for _, node := range append(is.Body.Nodes, "") {
		if _, err := s.cfg.Cluster.Order(ctx, store.Order{Node: node, What: store.OrderStop}, false); err != nil {
			return nil, unread(err)
		}
	}
	s.cfg.Cluster.Wake()
	return s.getScheduler(ctx, nil)
}
