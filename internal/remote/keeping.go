package remote

import (
	"errors"
	"fmt"
	"time"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/shared/session"
)

// keeping passes to the keeper of this worker what its session receives: the handler of its attempts, how
// long they may run, and which ends the keeper may delete.
type keeping struct{ *Worker }

var _ session.Keeper[*attempt] = keeping{}

// errLease means that the lease of a worker is too short to be renewed in time, so that the worker would end
// attempts without a reason.
var errLease = errors.New("the lease of this worker is too short")

// pollsPerLease is the number of polls in a lease. A renewal has the time at which its poll was sent. The
// next renewal ends up to two polls later, and one poll may be late.
const pollsPerLease = 3

// Attached implements session.Keeper.
func (r keeping) Attached(out *workerv1.RegisterResponse, url string) error {
	if least := pollsPerLease * time.Duration(out.PollMillis) * time.Millisecond; r.work.Lease() < least {
		return fmt.Errorf("%w: the lease is %v, and %s answers every %v: set --lease to %dms or more", errLease, r.work.Lease(), url, least/pollsPerLease, least.Milliseconds())
	}
	r.mu.Lock()
	r.logsKeep = out.LogsKeep
	fresh := r.branded != out.Handler
	r.branded, r.why = out.Handler, refusal{}
	r.mu.Unlock()
	if fresh {
		r.brand(life{r.cfg.Name, r.s.Identity().UUID, out.Handler})
	}
	return nil
}

// Heard implements session.Keeper. It lets the running attempts run until a lease after an instant of the
// boot clock.
func (r keeping) Heard(at, lag time.Duration) {
	r.work.Renew(at + min(r.work.Lease(), session.LeaseOf(lag)))
}

// Acknowledged implements session.Keeper.
func (r keeping) Acknowledged(all []*entry) {
	r.mu.Lock()
	for _, a := range all {
		if a.Of.kept {
			r.unsent = append(r.unsent, a.Of)
		}
	}
	r.mu.Unlock()
	r.taken()
}

// Give implements session.Keeper.
func (r keeping) Give(all []*workerv1.LogRead) { r.give(all) }
