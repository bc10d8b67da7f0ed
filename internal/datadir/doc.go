// Package datadir is the data folder of a process. It makes the folder, refuses one that cannot be used, and
// locks it: one process at a time works over a data folder. The lock file names that process, so that
// commands find the node.
package datadir
