package api

// Backfill starts runs of a workflow for a list of instants in the past, a bounded number
// at a time.
type Backfill struct {
	ID          int64   `json:"id" doc:"0: a dry run, of which nothing is kept."`
	Workflow    string  `json:"workflow" doc:"NAME, or NAMESPACE/NAME outside the namespace default."`
	Namespace   string  `json:"namespace"`
	Trigger     *string `json:"trigger" doc:"The trigger whose instants these are; null: the caller gave the instants."`
	State       string  `json:"state" enum:"planned,running,paused,cancelled,done" doc:"planned: a dry run."`
	Total       int64   `json:"total" doc:"Instants to be started."`
	Started     int64   `json:"started" doc:"Instants that have their run."`
	Ended       int64   `json:"ended"`
	Failed      int64   `json:"failed" doc:"Runs that ended and did not succeed."`
	Active      int64   `json:"active" doc:"Unfinished runs."`
	First       Time    `json:"first" format:"date-time" doc:"The first instant in its order."`
	Last        Time    `json:"last" format:"date-time"`
	NextInstant *Time   `json:"next_instant" format:"date-time" doc:"The next instant for which a run is started; null: all have their run."`
	From        *Time   `json:"from" format:"date-time" doc:"As asked; null: a list was given."`
	To          *Time   `json:"to" format:"date-time"`
	Order       string  `json:"order" enum:"ascending,descending"`
	Parallel    int32   `json:"parallel" doc:"Most of its runs at one time."`
	Only        string  `json:"only" enum:"all,failed,missing,failed_or_missing"`
	Priority    string  `json:"priority" enum:"highest,high,medium,low,lowest"`
	Params      Params  `json:"params" nullable:"false" doc:"Parameters that replace those of the workflow; texts may hold ${{ trigger.time }}."`
	User        string  `json:"user"`
	WaitsFor    *string `json:"waits_for,omitempty" doc:"The quota of the namespace that lets no further run begin now. It is missing if none does."`
	CreatedAt   *Time   `json:"created_at" format:"date-time" doc:"null: a dry run."`
	ModifiedAt  *Time   `json:"modified_at" format:"date-time"`
	Samples     []Time  `json:"samples" nullable:"true" doc:"Of a dry run: some of its instants in their order; null otherwise."`
}

// Over reports whether the backfill has ended and none of its runs is active.
func (b *Backfill) Over() bool {
	return b.State == "done" || b.State == "cancelled" && b.Active == 0
}

// BackfillRequest starts a backfill: a range of a trigger's instants, both ends included,
// or a list of instants.
type BackfillRequest struct {
	Workflow string `json:"workflow" minLength:"1" maxLength:"127" doc:"NAME or NAMESPACE/NAME."`
	Trigger  string `json:"trigger,omitempty" maxLength:"255" doc:"Absent: the workflow's only schedule."`
	From     *Time  `json:"from,omitempty" format:"date-time"`
	To       *Time  `json:"to,omitempty" format:"date-time" doc:"The trigger itself fires the instants that are still to come."`
	Instants []Time `json:"instants,omitempty" nullable:"true" maxItems:"100000" doc:"Instead of a range."`
	Order    string `json:"order,omitempty" enum:"ascending,descending" doc:"Absent: ascending."`
	Parallel int32  `json:"parallel,omitempty" minimum:"0" maximum:"10000" doc:"Absent: 1."`
	Only     string `json:"only,omitempty" enum:"all,failed,missing,failed_or_missing" doc:"failed: only instants whose newest run did not succeed; missing: only instants without a run. Absent: all."`
	Params   Params `json:"params,omitempty" nullable:"true" doc:"Parameters that replace those of the trigger; texts may hold ${{ trigger.time }}."`
	Priority string `json:"priority,omitempty" enum:"highest,high,medium,low,lowest" doc:"Absent: the trigger's."`
	DryRun   bool   `json:"dry_run,omitempty" doc:"Only list the runs that would be started."`
}

// BackfillRun is one instant of a backfill with its run.
type BackfillRun struct {
	Instant    Time    `json:"instant" format:"date-time"`
	Run        string  `json:"run"`
	State      *string `json:"state" enum:"submitted,waiting,splitting,running,suspended,paused,finalising,succeeded,failed,stopped,skipped" doc:"null: the run is no longer kept."`
	Cause      *string `json:"cause"`
	CreatedAt  *Time   `json:"created_at" format:"date-time"`
	StartedAt  *Time   `json:"started_at" format:"date-time"`
	FinishedAt *Time   `json:"finished_at" format:"date-time"`
}
