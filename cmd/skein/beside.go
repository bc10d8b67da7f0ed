//go:build !plus

package main

// plusMain runs a client of a broker in a program that was built with the tag plus. It is nil in other
// programs, where the program skein-plus runs the client.
var plusMain func(args []string) (code int)
