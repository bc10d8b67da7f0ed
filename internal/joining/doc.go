// Package joining lets a node and a worker of one cluster authenticate each other. Both prove their identity
// by certificates of the internal authority (package authority), which are valid for a day. This package has
// both ends: the answers of a node, and the calls of a worker.
//
// # How a worker joins
//
// A person makes an invitation (skein worker invite), which bounds the worker: its name, its groups, its
// namespaces, its slots. The person gives its secret and the fingerprint of the authority to the worker's
// machine.
//
//	worker                                            node
//	  makes a key, writes DATA/access/worker.json.next
//	  POST …/Join: the secret, a request for this key ──► checks name, invitation and key, signs the
//	                                                      certificate, uses the invitation (one transaction
//	                                                      with the row of the certificate)
//	  writes DATA/access/worker.json   ◄── Grant: the certificate, its bounds, the roots
//	  removes worker.json.next
//
// If one of the two dies, or an answer is lost, the same call can be made again:
//
//   - The key is on the disk before it is used. So a repeated call has the same key.
//   - The certificate is signed before the invitation is used. If the node dies in between, nothing was used.
//   - The row of a certificate is known by its key. A repeated call with that key gets another certificate
//     for the same row, and uses nothing up (store.Tokens.JoinToken).
//   - A worker that has a certificate tries its present key first, and a new one only if the nodes say that
//     the key belongs to another invitation or was revoked. It keeps its certificate until it has another.
//
// # How certificates are renewed
//
// A worker renews its certificate at two thirds of its life, for the same key, at any node that it knows
// ([WorkerTransport]). A node signs its own ([NodeTransport]). Both begin new connections with a renewed
// certificate, because a connection keeps the certificate with which it began. A worker that was away for
// longer than its certificate is valid needs another invitation.
//
// # What a certificate proves
//
// The listener of a node asks callers for a certificate but accepts calls without one ([Node.Listen]): people
// and programs show tokens. The gate (package auth) verifies a certificate ([Node.Verify]), compares a
// worker's with its row in the store, and so refuses a revoked one. The home of a worker learns the proven
// name and bounds from [Proofs]. If a worker has a certificate, no token is accepted for its name.
//
// A node shows the operator's certificate to clients. Under the name authority.ServerName it shows one of the
// internal authority, by which workers know it. A worker that joins knows only the fingerprint of a root, and
// accepts exactly the node whose chain ends there.
//
// # Earlier versions and other ways
//
// A node of an earlier version asks for no certificate, and a node without TLS cannot ask. These are called
// with a token, or with the key in the database. Until a database has an authority, all nodes are called in
// this way.
//
// Reading order: protocol.go (the two calls), answer.go (a node's answers), membership.go (what a worker
// keeps), join.go (its calls), renew.go, node.go and between.go (the certificates of nodes).
package joining
