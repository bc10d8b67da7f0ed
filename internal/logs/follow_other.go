//go:build !unix

package logs

// noFollow is the flag with which a link cannot be opened as a log. This system has no such flag, and stores
// no logs.
const noFollow = 0
