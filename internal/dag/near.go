package dag

import (
	"slices"

	"skein.dev/skein/internal/suggest"
)

// Near returns the task whose name is nearest to name, or "" if none is near.
func (g *Graph) Near(name string) string { return suggest.Nearest(name, slices.Values(g.names)) }
