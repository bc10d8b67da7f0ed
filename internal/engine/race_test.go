//go:build race

package engine_test

// slower is the factor by which sizes shrink under the race detector.
const slower = 10
