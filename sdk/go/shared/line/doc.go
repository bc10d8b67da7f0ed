// Package line carries calls over one kept connection, one after the other. The client requests a line as
// HTTP/1.1 requests another protocol (101 Switching Protocols), so the request passes all checks of the
// server. After that, each call and each reply is its length and its bytes. So a call costs a write and a
// read on each side, in the goroutine that makes it, and nothing else.
//
// The server adds a check of each call with Checked. A client that gets no line makes ordinary calls.
package line
