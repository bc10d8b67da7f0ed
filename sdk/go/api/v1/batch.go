package api

// StartsMax bounds the starts of one batch.
const StartsMax = 10_000

// BatchRequest starts many runs. A start without an idempotency key gets one that is derived from the
// request's key.
type BatchRequest struct {
	Runs []RunRequest `json:"runs" nullable:"false" minItems:"1" maxItems:"10000" doc:"The starts. Each needs its idempotency_key, or the request an Idempotency-Key: then start i has KEY/i."`
}

// StartVerdict is the result of one start of a batch.
type StartVerdict struct {
	Verdict string   `json:"verdict" enum:"accepted,existing,refused" doc:"accepted: the run is durable. existing: an earlier start with this key made it. refused: problem says why; nothing was started."`
	Run     *string  `json:"run" format:"uuid" doc:"The run; null: refused."`
	Problem *Problem `json:"problem,omitempty" nullable:"false" doc:"Of a refused start. Where its status is 429 or 503, the same start may be sent again."`
}

// The verdicts on a start.
const (
	VerdictAccepted = "accepted"
	VerdictExisting = "existing"
	VerdictRefused  = "refused"
)

// BatchResult holds a verdict on each start of a batch, in the order of the request.
type BatchResult struct {
	Items    []StartVerdict `json:"items" nullable:"false"`
	Accepted int            `json:"accepted"`
	Existing int            `json:"existing"`
	Refused  int            `json:"refused"`
}
