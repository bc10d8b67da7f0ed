package dag

import (
	"cmp"
	"slices"
)

// AttemptKey names an attempt as the key of a map. Its fields leave no padding between them: Go hashes and
// compares a key with padding field by field, which is too slow on the hot path.
type AttemptKey struct {
	Run   RunID
	Task  int64 // a TaskID, widened so that there is no padding
	Token Token
}

// KeyOf returns the key of an attempt.
func KeyOf(run RunID, task TaskID, token Token) AttemptKey {
	return AttemptKey{run, int64(task), token}
}

// Compare orders keys by run, task and token.
func (k AttemptKey) Compare(o AttemptKey) int {
	return cmp.Or(slices.Compare(k.Run[:], o.Run[:]), cmp.Compare(k.Task, o.Task), cmp.Compare(k.Token, o.Token))
}
