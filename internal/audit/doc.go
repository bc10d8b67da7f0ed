// Package audit makes tampering with the audit log visible. The rows are the leaves of a Merkle tree (RFC
// 6962). A node signs the root of the tree at intervals, and stores these checkpoints outside of the
// database. Verify compares rows with checkpoints. It finds changed, removed, inserted and cut-off rows, if a
// checkpoint covers them.
//
// The Keeper of a node gives rows their index, signs checkpoints and deletes old rows. All other parts of the
// package only compute.
package audit
