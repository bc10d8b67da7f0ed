package api

// Namespace holds the quotas of a namespace, and what its runs use of them.
type Namespace struct {
	Name       string  `json:"name"`
	Quotas     Quotas  `json:"quotas"`
	Runs       *int64  `json:"runs,omitempty" doc:"Runs that have not ended, waiting ones too. It is missing if they are not counted, because there is no quota of runs."`
	RunsInHour *int64  `json:"runs_in_hour,omitempty" doc:"Runs that have begun in this hour of the clock (UTC). It is missing if they are not counted."`
	User       *string `json:"user,omitempty" doc:"Who changed the quotas last."`
	ModifiedAt *Time   `json:"modified_at,omitempty" format:"date-time"`
}

// Quotas bound what a namespace may use. A quota that is missing or null does not bound.
type Quotas struct {
	Runs        *int64 `json:"runs,omitempty" minimum:"1" doc:"Runs that have not ended, waiting ones too."`
	RunsPerHour *int64 `json:"runs_per_hour,omitempty" minimum:"1" doc:"Runs that begin in an hour of the clock (UTC)."`
	Tasks       *int64 `json:"tasks,omitempty" minimum:"1" doc:"Tasks of a workflow."`
	ParamsBytes *int64 `json:"params_bytes,omitempty" minimum:"1" doc:"Bytes of the parameters of one run."`
}

// NamespaceRequest sets the quotas of a namespace, all of them.
type NamespaceRequest struct {
	Quotas Quotas `json:"quotas"`
}
