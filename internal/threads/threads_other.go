//go:build !linux

// Package threads says how the kernel treats the threads of this process.
package threads

// Calm does nothing: only Linux lets a program change how long the runtime's monitor sleeps.
func Calm() error { return nil }

// Unchanged does nothing: on systems where Calm does nothing, a child inherits nothing unusual.
func Unchanged() {}
