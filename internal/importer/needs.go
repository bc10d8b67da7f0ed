package importer

import "slices"

// Follows reports whether task needs other, directly or through other tasks. The function needs returns the
// direct needs of a task.
func Follows[T comparable](task, other T, needs func(T) []T) bool {
	seen, todo := map[T]bool{}, slices.Clone(needs(task))
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if next == other {
			return true
		}
		if !seen[next] {
			seen[next] = true
			todo = append(todo, needs(next)...)
		}
	}
	return false
}
