// Package doctor checks whether a node with the given settings can work on this machine. It checks the
// folder, the disk, the database, keys, tokens, identity providers, the port and limits. Each check reports
// its finding, and the remedy for a fault. The checks need no running node, and may run next to one.
package doctor
