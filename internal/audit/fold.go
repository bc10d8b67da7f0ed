package audit

import (
	"cmp"
	"slices"
	"sync"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// The bounds of the rows about refused calls.
const (
	// foldKinds bounds the kinds of refused calls that are counted apart. Others are counted together.
	foldKinds = 200
	// foldBurst and foldEach bound the rows of a node: it may write foldBurst at once, and one more each
	// foldEach. That is at most 920 rows a day, however many calls are refused.
	foldBurst = 200
	foldEach  = 2 * 60 * 1_000_000 // µs
)

// The bounds of the rows about reads: those of a node are at most 10,640 a day.
const (
	readKinds = 2000
	readBurst = 2000
	readEach  = 10 * 1_000_000 // µs
)

// Fold counts calls of one outcome, so that many calls cause few rows. Several goroutines may use it.
type Fold struct {
	outcome string
	most    int        // bounds the kinds of calls that are counted apart
	burst   int64      // bounds the rows that may be written at once
	each    dag.Micros // the time in which there is room for one more row

	mu     sync.Mutex // protects following fields
	kinds  map[foldKind]*store.Audit
	others *store.Audit // calls beyond the bounds
	room   int64        // rows that may be written now
	filled dag.Micros   // the time at which the free space was measured
}

// foldKind identifies the calls that one row counts.
type foldKind struct {
	principal, address, verb, action, object, namespace, detail string
}

// NewFold returns an empty count of refused calls.
func NewFold(now dag.Micros) *Fold {
	return &Fold{outcome: store.AuditRefused, most: foldKinds, burst: foldBurst, each: foldEach, kinds: map[foldKind]*store.Audit{}, room: foldBurst, filled: now}
}

// NewReads returns an empty count of reads.
func NewReads(now dag.Micros) *Fold {
	return &Fold{outcome: store.AuditRead, most: readKinds, burst: readBurst, each: readEach, kinds: map[foldKind]*store.Audit{}, room: readBurst, filled: now}
}

// Add counts a call. It does not store the request.
func (f *Fold) Add(now dag.Micros, r store.Audit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := foldKind{r.Principal, r.Address, r.Verb, r.Action, r.Object, r.Namespace, r.Detail}
	is := f.kinds[key]
	switch {
	case is != nil:
	case len(f.kinds) < f.most:
		is = &store.Audit{Principal: r.Principal, Kind: r.Kind, Token: r.Token, Session: r.Session, Address: r.Address, Verb: r.Verb, Action: r.Action,
			Object: r.Object, Namespace: r.Namespace, Detail: r.Detail, At: now}
		f.kinds[key] = is
	default:
		is = f.other(now)
	}
	is.Count++
	is.Last = now
}

func (f *Fold) other(now dag.Micros) *store.Audit {
	if f.others == nil {
		f.others = &store.Audit{Action: "other-calls", Detail: f.outcome + " calls of more kinds than are counted apart", At: now}
	}
	return f.others
}

// Take returns the rows to write, and starts to count again. Events of kinds that have no room for a row are
// counted together in one row, which is held back until there is room.
func (f *Fold) Take(now dag.Micros) []store.Audit {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := int64((now - f.filled) / f.each); n > 0 {
		f.room, f.filled = min(f.room+n, f.burst), f.filled+dag.Micros(n)*f.each
	}
	all := make([]*store.Audit, 0, len(f.kinds))
	for _, r := range f.kinds {
		all = append(all, r)
	}
	clear(f.kinds)
	slices.SortFunc(all, func(a, b *store.Audit) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.At, b.At)) })
	var out []store.Audit
	for _, r := range all {
		if f.room > 1 { // the last row is kept for f.others
			f.room--
			out = append(out, *r)
			continue
		}
		o := f.other(r.At)
		o.Count, o.At, o.Last = o.Count+r.Count, min(o.At, r.At), max(o.Last, r.Last)
	}
	if f.others != nil && f.room > 0 {
		f.room--
		out, f.others = append(out, *f.others), nil
	}
	for i := range out {
		out[i].Key, out[i].Index, out[i].Outcome = uuid.New(), -1, f.outcome
	}
	return out
}
