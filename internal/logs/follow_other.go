//go:build !unix

package logs

// noFollow is the flag that refuses to open a link as a log. This system has no such flag, and keeps no logs.
const noFollow = 0
