// Package doctor checks whether a node can work here by its settings: folder, disk, database, keys, tokens,
// identity providers, port and limits. Each check says what it found, and the remedy for a fault. The checks
// need no node, and may run next to one.
package doctor
