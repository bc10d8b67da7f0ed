package api

// Problem is an error in the form of RFC 9457. Type is stable: act on it, and show Detail.
type Problem struct {
	Type     string      `json:"type" format:"uri-reference" doc:"Stable: /problems/KIND."`
	Title    string      `json:"title"`
	Status   int         `json:"status"`
	Detail   string      `json:"detail"`
	Instance string      `json:"instance,omitempty" doc:"The path that was asked."`
	Errors   []FileError `json:"errors,omitempty" doc:"Every fault of a file, or of the request's fields."`
}

// Error makes a problem an error.
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}

// FileError is one fault: of a file, with its place from 1, or of a field of the request,
// with line and column 1 and the field's path as Key.
type FileError struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Key     string `json:"key"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
	Snippet string `json:"snippet,omitempty" doc:"The line at fault with a caret below."`
}

// Problem types, to be compared with Problem.Type.
const (
	ProblemNotFound        = "/problems/not-found"
	ProblemInvalid         = "/problems/invalid"
	ProblemNothing         = "/problems/nothing-to-do"
	ProblemInvalidWorkflow = "/problems/invalid-workflow"
	ProblemInvalidParams   = "/problems/invalid-params"
	ProblemConflict        = "/problems/conflict"
	ProblemIdempotency     = "/problems/idempotency-conflict"
	ProblemPrecondition    = "/problems/precondition-failed"
	ProblemBusy            = "/problems/busy"
	ProblemUnavailable     = "/problems/unavailable"
	ProblemFull            = "/problems/storage-full"
	ProblemTooLarge        = "/problems/too-large"
	ProblemMediaType       = "/problems/unsupported-media-type"
	ProblemMethod          = "/problems/method-not-allowed"
	ProblemRange           = "/problems/range-not-satisfiable"
	ProblemForeignHost     = "/problems/foreign-host"
	ProblemForeignOrigin   = "/problems/foreign-origin"
	ProblemNotAllowed      = "/problems/not-allowed"
	ProblemSignature       = "/problems/bad-signature"
	ProblemUnauthenticated = "/problems/unauthenticated"
	ProblemForbidden       = "/problems/forbidden"
	ProblemDamaged         = "/problems/damaged"
	ProblemInternal        = "/problems/internal"
)
