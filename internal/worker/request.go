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
	Timeout  time.Duration // bounds the time to the end of the answer; 0 means 30 s
	Status   []int         // statuses that mean success; if empty, 200 to 299
	Contains string        // a text that the body must contain
	Answer   string        // use of the body: AnswerText or AnswerJSON; "" means none
	Keep     []string      // headers of the answer that become outputs
	Egress   egress.Rules  // rules for its addresses
}

// Values of Request.Answer.
const (
	AnswerText = "text"
	AnswerJSON = "json"
)

// Causes of failed requests.
const (
	CauseHTTP   = "http"   // the answer is not the expected one
	CauseEgress = "egress" // the address is refused, and no request was sent
)
