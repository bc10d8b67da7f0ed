// Package local lets the programs of a user find the nodes that this user runs on the machine: each node
// records its address and a token in a file that only its user can read. Loopback itself proves nothing,
// since every user of the machine reaches it.
package local
