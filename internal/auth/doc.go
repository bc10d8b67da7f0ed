// Package auth says who may call a node that others than this machine can reach.
//
//   - secret.go: what the holder of a token shows, and the hash that is stored of it.
//   - gate.go: the handler in front of all routes of a listener.
//
// On a loopback address no token is asked for: who is on the machine may do what its user may.
// One that is shown counts all the same, and a wrong one is refused.
package auth
