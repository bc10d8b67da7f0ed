// Package line carries calls over one kept connection, one after the other. A line is asked for as HTTP/1.1
// asks for another protocol (101 Switching Protocols), past all that keeps the door of a server; then each
// call and each reply is its length and its bytes. So a call costs a write and a read on each side, in the
// goroutine that makes it, and nothing else.
//
// What the keeper of the door wants to know of each call he says by Checked. Who cannot have a line makes
// ordinary calls.
package line
