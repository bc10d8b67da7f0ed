package worker

import (
	"time"

	"skein.dev/skein/internal/egress"
)

// Request is an HTTP request that the worker sends itself: an attempt without a process.
type Request struct {
	Method   string
	URL      string
	Header   [][2]string
	Body     []byte
	Timeout  time.Duration // for the whole answer; 0 = 30 s
	Status   []int         // the answers that are a success; none = 200 to 299
	Contains string        // what the body must hold
	Answer   string        // what becomes of the body: AnswerText, AnswerJSON, "" = nothing
	Keep     []string      // headers of the answer that are handed on
	Egress   egress.Rules  // which addresses it may reach
}

// What becomes of the body of an answer.
const (
	AnswerText = "text"
	AnswerJSON = "json"
)

// Causes of failed requests.
const (
	CauseHTTP   = "http"   // it was not answered as expected
	CauseEgress = "egress" // its address is refused; nothing was sent
)
