// Package api holds the wire types of the REST interface, version 1: what the server
// writes and every client reads. openapi.json is made from them and from the server's
// routes (go test ./internal/server -run TestOpenAPI -update). They share nothing with the
// domain types, so that either may change without the other.
//
// Every field is always present; what does not apply is null. Fields may be added within
// the version, none is taken away or changes its meaning.
package api

// Prefix is where the routes of this version begin.
const Prefix = "/api/v1"

// APIVersion is the version of the interface. It rises when fields or routes are added.
const APIVersion = "1.1"

// NamespaceDefault is the namespace of a workflow that names none.
const NamespaceDefault = "default"

// Headers that the interface adds to those of HTTP.
const (
	// HeaderClaimedBy names the user of a program that shows no token. It is shown with runs and events, and
	// decides nothing.
	HeaderClaimedBy      = "Skein-Claimed-By"
	HeaderIdempotencyKey = "Idempotency-Key" // header of a POST: the same key gets the same answer
	HeaderLogOffset      = "Skein-Log-Offset"
	HeaderLogLine        = "Skein-Log-Line" // the number of the line at the offset, from 1, if it is known
	HeaderAttempt        = "Skein-Attempt"
)

// KeyOnce begins idempotency keys that a client makes by itself, so that it can send a request again whose
// answer was lost. For such a key a run is kept for an hour, not for seven days.
const KeyOnce = "once:"

// List is one page. Next begins the following one; null: this is the last. A page may be
// short, even empty, and still have a next one.
type List[T any] struct {
	Items []T     `json:"items" nullable:"false"`
	Next  *string `json:"next" doc:"Cursor of the following page; null if there is none. A page can be shorter than its limit and have one."`
	Total *Total  `json:"total,omitempty" doc:"Of lists that can count: only if it was asked for."`
}

// Total is the number of items that a list selects, over all of its pages.
type Total struct {
	N     int64 `json:"n"`
	Exact bool  `json:"exact" doc:"false: there are at least n."`
}
