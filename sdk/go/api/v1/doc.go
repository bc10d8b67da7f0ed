// Package api holds the wire types of the REST interface, version 1. The server writes them, and every client
// reads them. openapi.json is generated from them and from the server's routes (go test ./internal/server
// -run TestOpenAPI -update). The types are independent of the domain types, so that either can change without
// the other.
//
// Every field is always present. A field that does not apply is null. Within the version, fields may be
// added. No field is removed or changes its meaning.
package api

// Prefix is the beginning of the paths of this version.
const Prefix = "/api/v1"

// APIVersion is the version of the interface. It rises when fields or routes are added.
const APIVersion = "1.1"

// NamespaceDefault is the namespace of a workflow that names none.
const NamespaceDefault = "default"

// Headers that the interface adds to those of HTTP.
const (
	// HeaderClaimedBy names the user of a program that sends no token. Runs and events show the name. No
	// decision depends on it.
	HeaderClaimedBy      = "Skein-Claimed-By"
	HeaderIdempotencyKey = "Idempotency-Key" // header of a POST; requests with the same key get the same answer
	HeaderLogOffset      = "Skein-Log-Offset"
	HeaderLogLine        = "Skein-Log-Line" // number of the line at the offset, from 1, if it is known
	HeaderAttempt        = "Skein-Attempt"
)

// KeyOnce is the prefix of the idempotency keys that a client generates, so that it can repeat a request
// whose answer was lost. Such a key is valid for an hour, other keys for seven days.
const KeyOnce = "once:"

// List is one page. Next is the cursor of the following page. It is null on the last page. A page may be
// short or even empty although another page follows.
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
