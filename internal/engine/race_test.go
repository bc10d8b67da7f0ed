//go:build race

package engine_test

// slower is by how much sizes shrink where every access is watched.
const slower = 10
