package engine

import (
	"errors"
	"fmt"
	"testing"

	"skein.dev/skein/internal/store"
)

// TestTwoFullNamespaces: if the store refuses a transaction because of one namespace, and then because of
// another one, both are full for the transaction that is made again. So the second refusal blames no item: a
// report in the same transaction keeps its result.
func TestTwoFullNamespaces(t *testing.T) {
	over := func(namespace string) error {
		return fmt.Errorf("commit: %w", &store.QuotaError{Namespace: namespace, Quota: store.QuotaRuns, Bound: 1, Used: 1})
	}
	var q quotas
	for _, namespace := range []string{"a", "b"} {
		if !q.refused(over(namespace)) || q.full[namespace] == nil {
			t.Errorf("the refusal because of namespace %s does not make the transaction again", namespace)
		}
	}
	if q.refused(over("a")) {
		t.Error("a namespace that is full already is refused again, without an end")
	}
	if q.refused(errors.New("another cause")) {
		t.Error("another cause counts as a full namespace")
	}
}
