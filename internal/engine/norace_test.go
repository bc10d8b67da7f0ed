//go:build !race

package engine_test

const slower = 1

// timedStores are what tests of the clock run over.
var timedStores = []string{"memory", "sqlite"}
