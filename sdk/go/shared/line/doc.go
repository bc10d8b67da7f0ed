// Package line carries calls over one kept connection, one after the other. A client requests a line with an
// HTTP/1.1 request that changes the protocol (101 Switching Protocols). So this request passes all checks of
// the server. After that, each call and each reply is sent as its length and its bytes. A call then costs
// only one write and one read on each side, in the goroutine that makes the call.
//
// The server can add a check of each call with Checked. A client that gets no line makes ordinary calls.
package line
