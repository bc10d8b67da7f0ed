package dag

import (
	"slices"

	"skein.dev/skein/internal/suggest"
)

// Near returns the task whose name is most similar to name, or "" if none is similar enough.
func (g *Graph) Near(name string) string { return suggest.Nearest(name, slices.Values(g.names)) }
