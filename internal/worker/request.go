package worker

import (
	"time"

	"skein.dev/skein/internal/egress"
)

// Request is an HTTP request that the worker itself sends. Its attempt has no process.
type Request struct {
	Method   string
	URL      string
	Header   [][2]string
	Body     []byte
	Timeout  time.Duration // the time for the whole answer; 0 = 30 s
	Status   []int         // statuses that mean success; none = 200 to 299
	Contains string        // a text that the body must contain
	Answer   string        // how the body is used: AnswerText, AnswerJSON, "" = not at all
	Keep     []string      // headers of the answer that become outputs
	Egress   egress.Rules  // the policy for its addresses
}

// Uses of the body of an answer.
const (
	AnswerText = "text"
	AnswerJSON = "json"
)

// Causes of failed requests.
const (
	CauseHTTP   = "http"   // the answer was not the expected one
	CauseEgress = "egress" // the address was refused, and no request was sent
)
