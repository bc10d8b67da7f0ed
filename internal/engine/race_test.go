//go:build race

package engine_test

// slower is by how much sizes shrink where every access is watched.
const slower = 10

// timedStores are what tests of the clock run over. SQLite, translated from C, is thirty times
// as slow here; `make test` runs this package without the race detector, too.
var timedStores = []string{"memory"}
