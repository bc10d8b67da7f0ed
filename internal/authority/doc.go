// Package authority is the internal certificate authority of a database. Nodes and workers authenticate each
// other with its certificates, which are valid for a day and are renewed automatically. The certificate that
// a node shows to browsers and clients comes from the operator, and not from this authority.
//
//   - authority.go: the roots, which are one sealed secret; their change.
//   - issue.go: certificates for workers and nodes.
//   - verify.go: what a certificate proves.
//   - client.go: what workers and nodes do with their certificates.
package authority
