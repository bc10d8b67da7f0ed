// Package auth decides who may call a node. It also bounds what callers cost before and during their calls.
//
//   - secret.go: the secret of a token, and the hash that is stored of it.
//   - gate.go: the handler in front of all routes of a listener. It finds the caller, and allows the call.
//   - rights.go: the principals of callers, and so their verbs.
//   - certificate.go: callers that show a certificate of the internal authority.
//   - book.go: the tokens of the store, in the memory of this node.
//   - body.go: the limit, the deadline and the budget of a request's body.
//   - answer.go: the headers of every answer, and refusals that end the connection.
//   - channel.go: the proof by which a node passes on a request for a caller.
//   - connections.go: the bound of connections that have shown no credential.
//   - refusals.go: the bound of refusals of one address.
//   - rates.go: the bound of calls of one caller.
//   - shared.go: the part of a bound that a node grants while others grant the rest.
//
// A call on a loopback address needs a token, too, unless the setting loopback is open: then a program on
// this machine may do what the user of the node may. If a call shows a token, the call has the rights of this
// token, and a wrong token is refused. The token of a node's start is not in the store (Config.Local).
package auth
