// Package auth says who may call a node, and bounds what callers cost before and while they are served.
//
//   - secret.go: what the holder of a token shows, and the hash that is stored of it.
//   - gate.go: the handler in front of all routes of a listener: the caller, and whether the call is allowed.
//   - rights.go: the principals that callers are, and so their verbs.
//   - book.go: the tokens of the store, as this node knows them.
//   - body.go: the limit, the deadline and the budget of the body of a request.
//   - answer.go: the answer: the headers that every answer has, and refusals that end the connection.
//   - channel.go: how a node proves to another one for whom it passes a request on.
//   - connections.go: the connections of one address that have shown no credential.
//   - refusals.go: the refusals that one address gets in a second.
//
// On a loopback address no token is required, unless the setting loopback asks for one: a program on this
// machine may do what the user of the node may. A token that is shown counts all the same, and a wrong one is
// refused. The token of the node's own start is no row of the store (Config.Local).
package auth
