// Package audit makes the audit log show tampering. The rows are the leaves of a Merkle tree (RFC 6962). A
// node signs the root of the tree at intervals and keeps these checkpoints outside of the database. Verify
// compares rows with checkpoints. It finds rows that were changed, removed, inserted or cut off after a
// checkpoint covered them.
//
// A Keeper is the part of a node that gives rows their index, signs checkpoints and deletes old rows. All
// other parts decide and compute only.
package audit
