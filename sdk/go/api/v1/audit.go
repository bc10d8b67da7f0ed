package api

// AuditRow is one row of the audit log: a change, calls that were refused, or the start of a run.
type AuditRow struct {
	ID        int64  `json:"id" doc:"0: the row is the start of a run, and the row of the run is its record."`
	At        Time   `json:"at" format:"date-time"`
	LastAt    Time   `json:"last_at" format:"date-time" doc:"Of refused calls: the last one. Otherwise as at."`
	Count     int64  `json:"count" doc:"Of refused calls."`
	Principal string `json:"principal" doc:"The user or service of the call; empty: the caller is unknown."`
	Kind      string `json:"kind"`
	TokenID   *int64 `json:"token_id" doc:"The token by which the call was made."`
	SessionID *int64 `json:"session_id" doc:"The session by which the call was made."`
	Address   string `json:"address" doc:"Where the call came from."`
	Verb      string `json:"verb" doc:"The right that the call needs."`
	Action    string `json:"action" doc:"The operation of this interface."`
	Object    string `json:"object" doc:"The object of the call."`
	Namespace string `json:"namespace" doc:"Empty: the whole cluster."`
	Outcome   string `json:"outcome" enum:"done,refused,read"`
	Request   string `json:"request" doc:"The header X-Request-Id of the call, or its trace."`
	Detail    string `json:"detail"`
	Index     *int64 `json:"index" doc:"The place in the tree; null: it has none yet, or is the start of a run."`
}
