// Package home is where slots change hands: between this node and the workers that are attached to
// it, and between the nodes of a cluster.
//
// A worker is attached to one node, its home. The home counts its slots, in memory, from what the
// worker says at its registration; nobody else does. Owners of shards ask every home for slots
// (want), and a home lends them (grant). A slot that is lent is used by an attempt (deliver) or
// returned. What a node's own process can run is lent in the same way, when its own shards have no
// use for it.
//
// All that two nodes say to each other about slots are running totals, per worker, lease and owner:
// so many granted, so many returned. Whatever is lost, doubled or overtaken, the next message sets
// right. An owner that is gone returns all it had; a worker that is attached again starts from
// nothing, under another lease.
//
// A slot may be lent and not used, never used twice: free slots are counted in one place, an
// attempt takes one when it is delivered and gives it back when its end is reported.
//
//	home.go    what it needs; the loop
//	desk.go    the workers that are here, and what they have
//	errands.go  from an attempt to the answer that brings its job
//	serve.go   who gets a slot that is free
//	roster.go  the workers with free slots, in the order in which they lend
//	there.go   who is in the cluster, as it was last read
//	purse.go   the slots that this node has been lent: the engine's Market
//	send.go    attempts on their way to their handlers
//	rpc.go     the protocol of workers (api/worker/v1)
//	reads.go   what of a log only a worker has
//	artifacts.go  files that attempts of workers leave behind
package home
