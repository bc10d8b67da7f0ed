//go:build !linux

package main

// settlePages does nothing on this system.
func settlePages() {}
