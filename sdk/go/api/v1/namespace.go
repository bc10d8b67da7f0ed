package api

// Namespace holds the quotas of a namespace and its present use of them.
type Namespace struct {
	Name      string `json:"name"`
	Quotas    Quotas `json:"quotas"`
	Isolation string `json:"isolation,omitempty" doc:"The least level of isolation of all tasks. It is missing if the namespace demands none."`
	Demands
	Runs       *int64 `json:"runs,omitempty" doc:"Runs that have not ended, waiting ones too. It is missing if they are not counted, because there is no quota of runs."`
	RunsInHour *int64 `json:"runs_in_hour,omitempty" doc:"Runs that have begun in this hour of the clock (UTC). It is missing if they are not counted."`
	LogsInDay  *int64 `json:"logs_in_day,omitempty" doc:"Bytes of the logs of attempts that have ended today (UTC). It is missing if they are not counted, because there is no quota of logs."`
	// The following fields give what the namespace stores in the whole cluster.
	StoredBytes *int64 `json:"stored_bytes,omitempty" doc:"Bytes of the files of kept workflow versions, of the logs, artifacts and outputs of ended runs, and of parameters of kept runs from 1 KiB on."`
	Versions    *int64 `json:"versions,omitempty" doc:"Kept versions of workflows."`
	Triggers    *int64 `json:"triggers,omitempty" doc:"Triggers of workflows: schedules, sensors, webhooks."`
	Tokens      *int64 `json:"tokens,omitempty" doc:"Valid tokens and invitations that are limited to namespaces, this one among them. It is missing if there is no quota of tokens."`

	User       *string `json:"user,omitempty" doc:"The user who changed the quotas or the isolation last."`
	ModifiedAt *Time   `json:"modified_at,omitempty" format:"date-time"`
}

// Quotas limit what a namespace may use. A quota that is missing or null sets no limit.
type Quotas struct {
	Runs        *int64 `json:"runs,omitempty" minimum:"1" doc:"Runs that have not ended, waiting ones too."`
	RunsPerHour *int64 `json:"runs_per_hour,omitempty" minimum:"1" doc:"Runs that begin in an hour of the clock (UTC)."`
	Tasks       *int64 `json:"tasks,omitempty" minimum:"1" doc:"Tasks of a workflow."`
	ParamsBytes *int64 `json:"params_bytes,omitempty" minimum:"1" doc:"Bytes of the parameters of one run."`
	LogsPerDay  *int64 `json:"logs_per_day,omitempty" minimum:"1" doc:"Bytes of the logs of attempts that end within a day (UTC). Runs that have begun go on when it is used up."`

	StoredBytes       *int64 `json:"stored_bytes,omitempty" minimum:"1" doc:"Bytes of the files of kept workflow versions, of the logs, artifacts and outputs of ended runs, and of parameters of kept runs from 1 KiB on."`
	Versions          *int64 `json:"versions,omitempty" minimum:"1" doc:"Kept versions of workflows."`
	Triggers          *int64 `json:"triggers,omitempty" minimum:"1" doc:"Triggers of workflows: schedules, sensors, webhooks."`
	Tokens            *int64 `json:"tokens,omitempty" minimum:"1" doc:"Valid tokens and invitations that are limited to namespaces, this one among them."`
	RequestsPerMinute *int64 `json:"requests_per_minute,omitempty" minimum:"1" doc:"Calls, on each node, of callers that have rights in this namespace only."`
}

// Demands are the rules of a namespace for its tasks, besides the level of isolation. No rule gives a task
// more than the settings of its worker do.
type Demands struct {
	AllowRead  []string `json:"allow_read,omitempty" doc:"The only paths that a task may name for reading: in access, or as its script. It is missing if a task may name any path."`
	AllowWrite []string `json:"allow_write,omitempty" doc:"The only paths that a task may name for writing: in access, or as its working folder."`
	Egress     string   `json:"egress,omitempty" doc:"The addresses that calls of the namespace may reach, if the setting egress allows them, too: any, public, or networks with commas. It is missing if only that setting counts."`
	Locks      string   `json:"locks,omitempty" doc:"shared: a lock has the same name in all such namespaces. It is missing if the locks of the namespace are its own."`
	RunAs      string   `json:"run_as,omitempty" doc:"The Unix user of the tasks, on workers that permit it. It is missing if each worker chooses a user for the namespace."`
}

// NamespaceRequest sets all quotas of a namespace, and its isolation unless Isolation is nil.
type NamespaceRequest struct {
	Quotas    Quotas  `json:"quotas"`
	Isolation *string `json:"isolation,omitempty" enum:"none,fence,user,box" doc:"The least level of isolation of all tasks that start later; none: the namespace demands none. If it is missing, it does not change."`
	// The following fields do not change if they are missing.
	AllowRead  *[]string `json:"allow_read,omitempty" maxItems:"64" doc:"The only paths that a task may name for reading. The level must be fence or higher. An empty list: any path."`
	AllowWrite *[]string `json:"allow_write,omitempty" maxItems:"64" doc:"The same for writing."`
	Egress     *string   `json:"egress,omitempty" maxLength:"4096" doc:"The addresses that calls of the namespace may reach: any, public, or networks with commas. An empty text: only the setting egress counts."`
	Locks      *string   `json:"locks,omitempty" enum:"own,shared" doc:"own: the locks belong to the namespace. shared: a lock has the same name in all such namespaces."`
	RunAs      *string   `json:"run_as,omitempty" maxLength:"32" doc:"The Unix user of all tasks that start later. The level must be user or box, and only workers whose setting task_users names the user run them. An empty text: each worker chooses a user for the namespace."`
}
