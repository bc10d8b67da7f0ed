// Package authority is the internal certificate authority of a database. Nodes and workers prove to each
// other who they are with its certificates, which are valid for a day and are renewed by themselves. The
// certificate that a node shows to browsers and clients is the operator's and has nothing to do with it.
//
//   - authority.go: the roots, which are one sealed secret; their change.
//   - issue.go: certificates for workers and nodes.
//   - verify.go: what a certificate proves.
//   - client.go: what workers and nodes do with their certificates.
package authority
