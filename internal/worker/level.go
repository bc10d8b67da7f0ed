package worker

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"skein.dev/skein/internal/dag"
)

// Levels of isolation, for Config.Isolation. Each one includes the levels before it.
const (
	IsolationNone  = "none"  // a task has all rights of the worker's user
	IsolationFence = "fence" // a task reaches only the files that package fence allows
	IsolationUser  = "user"  // a task also has the user ID of its namespace
	IsolationBox   = "box"   // a task also has namespaces of its own, see package box
)

// Levels lists the levels of isolation, weakest first.
var Levels = dag.IsolationLevels

// UIDRange is a range of user IDs that belong to no user of the machine. It includes From and To.
type UIDRange struct{ From, To uint32 }

// UIDsDefault is outside of the ranges that distributions, systemd and container engines give to users.
const UIDsDefault = "1900000000-1900065535"

// ParseUIDs reads a range, such as 200000-265535.
func ParseUIDs(text string) (r UIDRange, err error) {
	from, to, ok := strings.Cut(text, "-")
	first, err1 := strconv.ParseUint(from, 10, 32)
	last, err2 := strconv.ParseUint(to, 10, 32)
	switch {
	case !ok || err1 != nil || err2 != nil:
		return r, fmt.Errorf("write a range of user IDs, such as %s", UIDsDefault)
	case first < 1000 || last == math.MaxUint32 || first > last:
		return r, fmt.Errorf("write user IDs from 1000 to %d, the smaller one first", uint32(math.MaxUint32-1))
	}
	return UIDRange{uint32(first), uint32(last)}, nil
}

// String returns the range as ParseUIDs reads it.
func (r UIDRange) String() string { return fmt.Sprintf("%d-%d", r.From, r.To) }

func (r UIDRange) holds(uid uint32) bool { return r.From <= uid && uid <= r.To }
