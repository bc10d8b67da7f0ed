package auth

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	api "skein.dev/skein/sdk/api/v1"
)

// Bounds of request bodies.
const (
	// strangerBytesMax bounds the bytes in flight of all bodies whose callers have shown no credential.
	// callerBytesMax bounds those of all other callers.
	strangerBytesMax = 16 << 20
	callerBytesMax   = 256 << 20
	// addressBytesMax is the part of strangerBytesMax that one address may use.
	addressBytesMax = strangerBytesMax / 4
	// StrangerBodyMax bounds the time that a body may take to arrive if its caller has shown no credential.
	StrangerBodyMax = 10 * time.Second
)

// BodyTime returns how long a body of n bytes may take to arrive if its caller has shown a credential: 60
// s, and 1 s for each 64 KiB. So a slow line has enough time for a large body.
func BodyTime(n int64) time.Duration {
	return time.Minute + time.Duration(n>>16)*time.Second
}

// bodyBytes returns the number of bytes that a request's body may have, at most the limit of its route.
func bodyBytes(r *http.Request, limit int64) int64 {
	if r.ContentLength < 0 {
		return limit
	}
	return min(r.ContentLength, limit)
}

// budget is a number of bytes that requests share.
type budget struct {
	max  int64
	each int64 // bound of one address; 0 if only the bound of all addresses together applies
	used atomic.Int64

	mu   sync.Mutex              // protects from
	from map[addressPrefix]int64 // bytes in use, of each address that uses any
}

// take takes n bytes for a request from an address. It returns false, and takes none, if the
// budget does not have n bytes left.
func (b *budget) take(from addressPrefix, n int64) bool {
	if b.used.Add(n) > b.max || !b.takeOf(from, n) {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) takeOf(from addressPrefix, n int64) bool {
	if b.each == 0 || n == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.from[from]+n > b.each {
		return false
	}
	if b.from == nil {
		b.from = map[addressPrefix]int64{}
	}
	b.from[from] += n
	return true
}

// give returns n bytes to the budget.
func (b *budget) give(from addressPrefix, n int64) {
	b.used.Add(-n)
	if b.each == 0 || n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.from[from] -= n; b.from[from] <= 0 {
		delete(b.from, from)
	}
}

// body is the body of a request within its bounds: the limit of the route, the remaining budget, and the
// deadline. If the body breaks a bound, the answer is a problem, whatever the handler does with the read
// error.
type body struct {
	io.ReadCloser
	rc      *http.ResponseController
	max     int64 // the largest body in bytes; 0 if the route takes no body
	lasts   time.Duration
	budget  *budget
	from    addressPrefix
	n       int64 // bytes read so far; all of them count against the budget
	began   bool
	ended   bool
	problem *api.Problem
	// passed is the caller for whom another node passes the request on. It is nil if the request comes from
	// outside.
	passed *Principal
	sum    hash.Hash // hash of the bytes read so far, if another node passes the request on
}

// Bounded reports whether a gate bounds the time of a body.
func Bounded(of io.ReadCloser) bool {
	_, is := of.(*body)
	return is
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
		_ = b.rc.SetReadDeadline(time.Now().Add(b.lasts)) // an error means that there is no connection
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
	case !b.budget.take(b.from, int64(n)):
		b.n -= int64(n)
		return 0, b.fail(http.StatusServiceUnavailable, api.ProblemUnavailable,
			"too many request bodies are in flight; send the request again in 1 s")
	case err == io.EOF && b.passed != nil && !b.passed.fits(b.sum.Sum(nil)):
		b.ended = true
		return 0, b.fail(http.StatusBadRequest, api.ProblemInvalid, "the body differs from the one that the other node passed on; send the request again")
	case err == io.EOF:
		b.ended = true
		_ = b.rc.SetReadDeadline(time.Time{}) // a deadline would end a request that lasts
	case err != nil:
		return n, b.broken(err)
	}
	return n, err
}

func tooLarge(limit int64) string {
	return fmt.Sprintf("the body is too large: this route takes at most %d bytes", limit)
}

// broken returns the error of a body that arrives too late or is malformed.
func (b *body) broken(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return b.fail(http.StatusRequestTimeout, api.ProblemInvalid,
			fmt.Sprintf("the body did not arrive within %v; send the request again", b.lasts))
	}
	return b.fail(http.StatusBadRequest, api.ProblemInvalid, "the body does not match its headers: "+err.Error())
}

func (b *body) fail(status int, problem, detail string) error {
	p := api.NewProblem(problem, status, detail)
	b.problem = &p
	return fmt.Errorf("%w: %s", errBody, detail)
}

// done returns the bytes of the body to the budget.
func (b *body) done() {
	if b != nil {
		b.budget.give(b.from, b.n)
		b.n = 0
	}
}

// unread reports whether the client may still send a part of the body.
func (b *body) unread() bool { return b != nil && !b.ended }
