package workflow

import (
	"fmt"
	"slices"
)

// OffersTo reports whether workflows of a namespace may call this workflow, wait for its runs, or start when
// its runs end. declared is false if the file does not say so; then the rights of the authors of those
// workflows decide.
func (w *Workflow) OffersTo(namespace string) (offered, declared bool) {
	switch {
	case namespace == w.Namespace:
		return true, true
	case w.Offers == nil:
		return false, false
	}
	return slices.Contains(w.Offers, namespace) || slices.Contains(w.Offers, "*"), true
}

// NotOffered returns the error for a workflow of a namespace to which this workflow is not offered.
func (w *Workflow) NotOffered(namespace string) error {
	return fmt.Errorf("workflow %[1]s/%[2]s is not offered to namespace %[3]s: add %[3]s to the key offers in its file, and apply it", w.Namespace, w.Name, namespace)
}
