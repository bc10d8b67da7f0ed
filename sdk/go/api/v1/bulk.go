package api

// BulkRequest selects the runs for a verb on several runs, either by their ids or by a filter. With a filter,
// the caller gives the expected number of runs, or accepts any number. A request can also only list the
// selected runs.
type BulkRequest struct {
	Runs      []string `json:"runs,omitempty" nullable:"false" maxItems:"1000" doc:"These runs, by id, instead of a filter; naming them confirms."`
	Workflow  string   `json:"workflow,omitempty" doc:"NAME or NAMESPACE/NAME."`
	State     string   `json:"state,omitempty" enum:"active,submitted,waiting,splitting,running,suspended,paused,finalising,succeeded,failed,stopped,skipped" doc:"Absent: active, and failed for recover and rerun."`
	User      string   `json:"user,omitempty"`
	Since     string   `json:"since,omitempty" doc:"RFC 3339: only runs created at or after it."`
	Until     string   `json:"until,omitempty" doc:"RFC 3339: only runs created before it."`
	Namespace string   `json:"ns,omitempty" maxLength:"63" doc:"Only runs of workflows of this namespace."`
	Origin    string   `json:"run_origin,omitempty" enum:"manual,api,schedule,sensor,backfill,parent,recovery,enqueue" doc:"Only runs with this origin. The origin of a rerun is that of the new runs."`
	Trigger   string   `json:"trigger,omitempty" maxLength:"255" doc:"Only runs that the trigger of this name has started."`
	Cause     string   `json:"cause,omitempty" maxLength:"255" doc:"Only runs that ended for this cause."`
	Backfill  int64    `json:"backfill,omitempty" minimum:"1" doc:"Only runs of this backfill."`
	Parent    string   `json:"parent,omitempty" maxLength:"36" doc:"Only runs that a task of this run has called."`
	Node      string   `json:"node,omitempty" maxLength:"255" doc:"Only runs whose tasks this node has made."`
	Tag       []string `json:"tag,omitempty" nullable:"false" maxItems:"8" doc:"KEY=VALUE: only runs with all of these tags."`
	Text      string   `json:"q,omitempty" maxLength:"255" doc:"Only runs with this text in their id, workflow, key, user, cause or message. Case does not matter."`
	All       bool     `json:"all,omitempty" doc:"Every run in that state: needed where nothing else narrows the choice."`
	Limit     int      `json:"limit,omitempty" minimum:"1" maximum:"1000" doc:"The most runs of one call, the newest first; default 1,000."`
	Cursor    string   `json:"cursor,omitempty" doc:"The next of an earlier answer, to continue after it."`
	DryRun    bool     `json:"dry_run,omitempty" doc:"Only list the runs; nothing is changed."`
	Expect    *int     `json:"expect,omitempty" nullable:"false" minimum:"0" doc:"The expected number of runs. If it differs, the call is refused with 409."`
	Confirm   bool     `json:"confirm,omitempty" doc:"Apply the verb, whatever the number of runs is."`
}

// BulkVerb is the body of stop, kill, pause and resume of several runs.
type BulkVerb struct {
	BulkRequest
	VerbRequest
}

// BulkRecover is the body of recover of several runs.
type BulkRecover struct {
	BulkRequest
	RecoverRequest
}

// BulkRerun is the body of rerun of several runs.
type BulkRerun struct {
	BulkRequest
	RerunRequest
}

// BulkResult gives the result for each run.
type BulkResult struct {
	Verb    string     `json:"verb"`
	DryRun  bool       `json:"dry_run"`
	Count   int        `json:"count" doc:"Runs that were chosen."`
	Done    int        `json:"done"`
	Refused int        `json:"refused"`
	Items   []BulkItem `json:"items" nullable:"false" doc:"In the order of the choice."`
	Next    *string    `json:"next" doc:"A cursor, if there are more than the limit; else null."`
}

// BulkItem is one run of a BulkResult.
type BulkItem struct {
	ID      string   `json:"id" doc:"Of the run that was chosen."`
	Outcome string   `json:"outcome" enum:"would,done,refused" doc:"would: a dry run."`
	Run     *Run     `json:"run,omitempty" doc:"The run after the verb, or the new run of a rerun; absent: it is not known."`
	Problem *Problem `json:"problem,omitempty" doc:"Why it was refused."`
}
