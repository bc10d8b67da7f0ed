package importer

import "slices"

// Follows reports whether one task needs another, directly or through others. needs returns those that a task
// needs directly.
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
