// Package line carries calls over one kept connection, one after the other. A line is asked for as HTTP/1.1 asks for another
// protocol (101 Switching Protocols), past all that keeps the door of a server; then each call and each reply is its length and its bytes.
// So a call costs a write and a read on each side, in the goroutine that makes it, and nothing else.
//
// A line lives for less than a revoked token is believed, and is asked for anew. Who cannot have one makes ordinary calls.
package line
