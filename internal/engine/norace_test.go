//go:build !race

package engine_test

const slower = 1
