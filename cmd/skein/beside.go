//go:build !plus

package main

// plusMain runs a client of a broker in a program that was built with the tag plus. nil: in others, the
// program skein-plus does.
var plusMain func(args []string) (code int)
