package api

// Node is a skein process.
type Node struct {
	Name      string   `json:"name"`
	Handler   string   `json:"handler" doc:"UUID, new at every start."`
	State     string   `json:"state" doc:"starting, running, retaking: WHY, stopped."`
	Version   string   `json:"version"`
	Roles     []string `json:"roles" nullable:"false"`
	Address   *string  `json:"address"`
	Slots     Slots    `json:"slots"`
	StartedAt Time     `json:"started_at" format:"date-time"`
}

// Slots is how many attempts run at once.
type Slots struct {
	Total int `json:"total"`
	Busy  int `json:"busy"`
}

// Status is the node that answers, in short.
type Status struct {
	Node       string         `json:"node"`
	Version    string         `json:"version"`
	State      string         `json:"state"`
	Accepting  bool           `json:"accepting" doc:"Submissions are taken now."`
	StartedAt  Time           `json:"started_at" format:"date-time"`
	Store      Store          `json:"store"`
	Runs       map[string]int `json:"runs" doc:"Unfinished runs by state."`
	ReadyTasks int64          `json:"ready_tasks" doc:"Runs with tasks that wait for a slot."`
	Slots      Slots          `json:"slots"`
}

// Store is what keeps the rows.
type Store struct {
	Engine   string `json:"engine" doc:"sqlite, postgres or memory."`
	Location string `json:"location"`
	Cluster  string `json:"cluster" format:"uuid" doc:"Made with the database."`
	Format   int    `json:"format"`
	Shards   int    `json:"shards"`
	Bytes    int64  `json:"bytes"`
}

// ServerVersion is what GET /version says.
type ServerVersion struct {
	Version   string `json:"version"`
	API       string `json:"api"`
	GoVersion string `json:"go_version"`
}
