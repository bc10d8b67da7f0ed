//go:build !unix

package logs

// noFollow is the flag with which no link is opened as a log. This system has none, and keeps no logs.
const noFollow = 0
