// Package local lets the programs of a user find the nodes that this user runs on the machine: each node
// records its address and a token in a file that only its user can read. A call over loopback itself proves
// nothing, because every user of the machine can make one.
package local
