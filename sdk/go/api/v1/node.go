package api

// Node is a skein process.
type Node struct {
	Name      string            `json:"name"`
	Handler   string            `json:"handler" doc:"Names one life of the process, in the form of a UUID; new at every start."`
	State     string            `json:"state" doc:"Of a node that is alone, or that answers and is not well: starting, running, full (its disk has no room: it takes no task until it has), leaving (it waits for what runs on it, and takes nothing new), retaking: WHY, stopped. Of members of a cluster: active, full, cordoned, drained (cordoned, and nothing is left), stopped, leaving."`
	Cordoned  bool              `json:"cordoned" doc:"The node gives up its shards and gets no others, until it is uncordoned."`
	Stopped   bool              `json:"stopped" doc:"Its scheduler is stopped, by itself or with the whole cluster."`
	Version   string            `json:"version"`
	Roles     []string          `json:"roles" nullable:"false"`
	Address   *string           `json:"address" doc:"null: a worker, which is attached to a node."`
	Home      *string           `json:"home" doc:"Of a worker: the node that it is attached to."`
	Groups    []string          `json:"groups" nullable:"false" doc:"Worker groups that it belongs to."`
	Labels    map[string]string `json:"labels" doc:"The labels that tasks may ask for."`
	Slots     Slots             `json:"slots" doc:"Of other nodes: as of their last sign of life."`
	Resources Resources         `json:"resources" doc:"For tasks that name what they take. Of other nodes: as of their last sign of life."`
	Shards    Shards            `json:"shards"`
	Load      *float64          `json:"load" doc:"The part of its capacity that its shards take, as of its last sign of life; null: not known, or it owns no shards."`
	StartedAt Time              `json:"started_at" format:"date-time"`
	SeenAt    *Time             `json:"seen_at" format:"date-time" doc:"Its last sign of life, on the clock of the database; null: it is alone."`
	Lag       float64           `json:"lag_seconds" doc:"Since seen_at, on the clock of the database."`

	Sight *NodeSight `json:"sight" doc:"The state of this node as the answering node sees it over the node channel; null: a worker, or a single node."`

	OrdersRefused *string `json:"orders_refused" doc:"Why the server refuses to cordon, drain and uncordon it; null: it does not."`
}

// NodeSight is the state of a node as another node sees it. It only informs people: the database alone
// decides which nodes are alive.
type NodeSight struct {
	By              string   `json:"by" doc:"The node that answers."`
	State           string   `json:"state" enum:"self,reached,unready,unreachable,unknown" doc:"unready: it answers, and is not ready. unreachable: two calls in a row failed, although the database lists it. unknown: it was not asked yet."`
	Reason          *string  `json:"reason" doc:"Why it is not ready, or the error of the last call."`
	CheckedAt       *Time    `json:"checked_at" format:"date-time" doc:"The last call."`
	Silent          float64  `json:"silent_seconds" doc:"Since its counter in the database moved, on the clock of the node that answers."`
	RoundTrip       float64  `json:"round_trip_seconds" doc:"Of the last answer."`
	ClockDifference float64  `json:"clock_difference_seconds" doc:"Its clock minus that of the node that answers."`
	UnreachedBy     []string `json:"unreached_by" nullable:"false" doc:"The nodes that say that they cannot reach it."`
}

// WorkerGroup is a group of workers that tasks select by its name.
type WorkerGroup struct {
	Name    string   `json:"name"`
	Workers []string `json:"workers" nullable:"false" doc:"Workers, and nodes that run tasks themselves."`
	Slots   Slots    `json:"slots" doc:"Of all of them."`
}

// Kind is a kind of task that nodes or workers can run.
type Kind struct {
	Kind        string   `json:"kind"`
	Origin      string   `json:"origin" enum:"skein,extension,worker" doc:"skein: part of the program. extension: a folder of the machine declares it. worker: a program has registered a task function."`
	Version     *string  `json:"version" doc:"Of the extension or the program; null: of a task function."`
	Digest      *string  `json:"digest" doc:"Of the declaration in the extension."`
	Connections []string `json:"connections" nullable:"false" doc:"The types of connections that its input can name."`
	Members     []string `json:"members" nullable:"false" doc:"Nodes and workers that have it, at most 50."`
	Total       int      `json:"total" doc:"How many nodes and workers have it."`
}

// RefusedExtension is a folder of extensions that nodes or workers do not use.
type RefusedExtension struct {
	Folder  string   `json:"folder"`
	Why     string   `json:"why"`
	Members []string `json:"members" nullable:"false" doc:"Nodes and workers that refuse it, at most 50."`
	Total   int      `json:"total" doc:"How many nodes and workers refuse it."`
}

// Shards describes the shards of a node.
type Shards struct {
	Owned int     `json:"owned"`
	List  []int32 `json:"list" nullable:"false"`
	Moved []int32 `json:"moved" nullable:"false" doc:"The shards that were moved to it by hand."`

	Costs   []ShardCost  `json:"costs" nullable:"false" doc:"Work for the costliest shards, as of the last sign of life."`
	Shifted []ShardShift `json:"shifted" nullable:"false" doc:"The shards that were moved to it because of their load."`
}

// ShardCost is the recent work of a node for a shard, as rates.
type ShardCost struct {
	ID      int32   `json:"id"`
	Busy    float64 `json:"busy" doc:"Seconds per second for which the node's writer works for the shard."`
	Rows    float64 `json:"rows" doc:"Rows written per second."`
	Commits float64 `json:"commits" doc:"Transactions per second that write to the shard."`
	Wait    float64 `json:"wait_seconds" doc:"How long a call or report waits until its transaction has committed."`
}

// ShardShift is the reason why the load of a shard caused its move.
type ShardShift struct {
	ID   int32   `json:"id"`
	From *string `json:"from" doc:"The node that had it before; null: it is gone."`
	At   Time    `json:"at" format:"date-time"`
	Why  string  `json:"why"`
}

// Shard is a subset of all runs, with the node that advances these runs.
type Shard struct {
	ID        int32   `json:"id"`
	Owner     *string `json:"owner" doc:"A node; null: it has no owner now."`
	MovedTo   *string `json:"moved_to" doc:"The node to which it was moved by hand; null: it was not moved."`
	Workflows int     `json:"workflows"`
}

// MoveRequest names the node that gets a shard.
type MoveRequest struct {
	Node string `json:"node" minLength:"1" maxLength:"100" doc:"-: wherever it is needed."`
}

// Scheduler lists the nodes that are stopped from advancing runs.
type Scheduler struct {
	Stopped   bool     `json:"stopped" doc:"In the whole cluster."`
	Nodes     []string `json:"nodes" nullable:"false" doc:"The nodes that were stopped by name."`
	User      *string  `json:"user" doc:"The user who stopped the whole cluster."`
	StoppedAt *Time    `json:"stopped_at" format:"date-time"`
}

// Slots is the number of attempts that run at the same time.
type Slots struct {
	Total int `json:"total"`
	Busy  int `json:"busy"`
}

// Resources are the cpu and memory that a node has for tasks, and the share that attempts use.
type Resources struct {
	CPU    Cores `json:"cpu"`
	Memory Bytes `json:"memory"`
}

// Cores are processor cores.
type Cores struct {
	Total float64 `json:"total"`
	Used  float64 `json:"used"`
}

// Bytes are bytes of memory.
type Bytes struct {
	Total int64 `json:"total"`
	Used  int64 `json:"used"`
}

// Verification is the result of a recount of all stored rows.
type Verification struct {
	Violations []Violation `json:"violations" doc:"The violated invariants; none: all is well."`
}

// Violation is a rule that stored rows break.
type Violation struct {
	Run  string `json:"run,omitempty"`
	Task string `json:"task,omitempty"`
	Rule string `json:"rule"`
	What string `json:"what"`
}

// Status is a summary of the node that answers.
type Status struct {
	Node       string         `json:"node"`
	Version    string         `json:"version"`
	State      string         `json:"state" doc:"starting, running, leaving (it waits for what runs on it, and takes nothing new), retaking: WHY, stopped."`
	Accepting  bool           `json:"accepting" doc:"Submissions are taken now."`
	StartedAt  Time           `json:"started_at" format:"date-time"`
	Store      Store          `json:"store"`
	Runs       map[string]int `json:"runs" doc:"Unfinished runs by state."`
	ReadyTasks int64          `json:"ready_tasks" doc:"Runs with tasks that wait for a slot."`
	Slots      Slots          `json:"slots"`
}

// Store describes the database.
type Store struct {
	Engine   string `json:"engine" doc:"sqlite, postgres or memory."`
	Location string `json:"location"`
	Cluster  string `json:"cluster" format:"uuid" doc:"Made with the database."`
	Format   int    `json:"format"`
	Shards   int    `json:"shards"`
	Bytes    int64  `json:"bytes"`
}

// ServerVersion is the answer of GET /version.
type ServerVersion struct {
	Version   string `json:"version"`
	API       string `json:"api"`
	GoVersion string `json:"go_version"`
}

// LogLevel is the least severe level that a node logs.
type LogLevel struct {
	Node  string `json:"node"`
	Level string `json:"level" enum:"debug,info,warn,error"`
}

// LogLevelRequest changes the level of a node's log.
type LogLevelRequest struct {
	Level string `json:"level" enum:"debug,info,warn,error"`
}

// NodeLoads is the load of a node in the last hour, measured every 5 s. After a restart of the node, it
// begins without points.
type NodeLoads struct {
	Node  string          `json:"node"`
	Items []NodeLoadPoint `json:"items" doc:"The oldest first, at most 720."`
}

// NodeLoadPoint holds the means of the 5 s before an instant.
type NodeLoadPoint struct {
	At         Time    `json:"at"`
	CPU        float64 `json:"cpu" doc:"Cores that the process of the node used, without its tasks."`
	Slots      int     `json:"slots"`
	Busy       int     `json:"busy" doc:"Slots with an attempt."`
	Started    float64 `json:"started" doc:"Attempts that began, per second."`
	Commits    float64 `json:"commits" doc:"Transactions of its shards, per second."`
	CommitTime float64 `json:"commit_s" doc:"Seconds that a transaction took; 0: there was none."`
	Lag        float64 `json:"lag_s" doc:"Seconds since the last heartbeat that the database has."`
}
