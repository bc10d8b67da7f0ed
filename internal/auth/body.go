package auth

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	api "skein.dev/skein/api/v1"
)

// Bounds of the bodies of requests.
const (
	// strangerBytesMax bounds the bytes of bodies in flight of callers that have shown no credential, callerBytesMax
	// those of the others, all together.
	strangerBytesMax = 16 << 20
	callerBytesMax   = 256 << 20
	// StrangerBodyMax is how long the body of a caller may take that has shown no credential, callerBodyMax that
	// of another one.
	StrangerBodyMax = 10 * time.Second
	callerBodyMax   = time.Minute
)

// budget is a number of bytes that requests share.
type budget struct {
	max  int64
	used atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= b.max {
		return true
	}
	b.used.Add(-n)
	return false
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// body is the body of a request within its bounds: those of its route, and the bytes and the time that are left.
// What goes wrong is answered with a problem, whatever the handler that reads it makes of the error.
type body struct {
	io.ReadCloser
	rc      *http.ResponseController
	max     int64 // bytes; 0: the route takes none
	lasts   time.Duration
	budget  *budget
	n       int64 // that have been read, all of the budget
	began   bool
	ended   bool
	problem *api.Problem
	passed  *Principal // for whom another node passes it on; nil: it comes from outside
	sum     hash.Hash  // of what was read, if another node passes it on
}

var errBody = errors.New("the body is refused")

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.problem != nil {
		return 0, errBody
	}
	if b.ended {
		return 0, io.EOF
	}
	if !b.began {
		b.began = true
		_ = b.rc.SetReadDeadline(time.Now().Add(b.lasts)) // there may be no connection
	}
	n, err := b.ReadCloser.Read(p)
	if b.passed != nil {
		if b.sum == nil {
			b.sum = sha256.New()
		}
		b.sum.Write(p[:n])
	}
	switch b.n += int64(n); {
	case b.n > b.max:
		b.n -= int64(n)
		return 0, b.fail(http.StatusRequestEntityTooLarge, api.ProblemTooLarge, tooLarge(b.max))
	case !b.budget.take(int64(n)):
		b.n -= int64(n)
		return 0, b.fail(http.StatusServiceUnavailable, api.ProblemUnavailable,
			"the bodies of too many requests are on their way; send yours again in a second")
	case err == io.EOF && b.passed != nil && !b.passed.fits(b.sum.Sum(nil)):
		b.ended = true
		return 0, b.fail(http.StatusBadRequest, api.ProblemInvalid, "the body is not the one that a node passed on; send the request again")
	case err == io.EOF:
		b.ended = true
		_ = b.rc.SetReadDeadline(time.Time{}) // it would end a request that lasts
	case err != nil:
		return n, b.broken(err)
	}
	return n, err
}

func tooLarge(limit int64) string {
	return fmt.Sprintf("the body is too large: this route takes at most %d bytes", limit)
}

// broken tells a body that does not come in time from one that makes no sense.
func (b *body) broken(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return b.fail(http.StatusRequestTimeout, api.ProblemInvalid,
			fmt.Sprintf("the body did not arrive within %v; send the request again", b.lasts))
	}
	return b.fail(http.StatusBadRequest, api.ProblemInvalid, "the body is not sent as its header says: "+err.Error())
}

func (b *body) fail(status int, problem, detail string) error {
	b.problem = &api.Problem{Type: problem, Title: titles[problem], Status: status, Detail: detail}
	return fmt.Errorf("%w: %s", errBody, detail)
}

// done gives the budget back.
func (b *body) done() {
	if b != nil {
		b.budget.give(b.n)
		b.n = 0
	}
}

// unread reports whether something of a body may still come.
func (b *body) unread() bool { return b != nil && !b.ended }
