// Package peer contains the calls that the nodes of a cluster make to each other over HTTP. A node reports
// and cancels attempts whose runs another node owns. It asks other nodes whether they still hold an attempt,
// and whether they can use the store. It nudges them to read the store, and passes on requests to the node
// that can answer them.
//
// Reports of workers that are no nodes come by another way: see package home.
//
// No message has to arrive: a lost message is sent again, or the store has its content.
package peer

import (
	"context"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// Paths of the calls between nodes.
const (
	Prefix     = "/internal/v1/"
	reportPath = Prefix + "report"
	cancelPath = Prefix + "cancel"
	wakePath   = Prefix + "wake"
	submitPath = Prefix + "submit"
	checkPath  = Prefix + "check"
	holdPath   = Prefix + "missing"
	blindPath  = Prefix + "blind"
	ownPath    = Prefix + "disown"
)

// HeaderElsewhere is the header by which a handler says that another node has to answer: "shard N" or
// "handler N". HeaderHops counts how often a request was passed on.
const (
	HeaderElsewhere = "X-Skein-Elsewhere"
	HeaderHops      = "X-Skein-Hops"
	// HeaderHere asks a handler for the part of the answer that only its node has.
	HeaderHere = "X-Skein-Here"
)

// hopsMax bounds how often a request is passed on: ownership may move while it travels.
const hopsMax = 3

// BodyMax bounds a call between nodes, in bytes.
const BodyMax = 4 << 20

// Directory returns the members of the cluster. It is implemented by the node's membership.
type Directory interface {
	Self() store.Member
	Alive(h dag.HandlerID) bool
	Member(h dag.HandlerID) (store.Member, bool)
	OwnerOf(s dag.ShardID) (store.Member, bool)
	Wake()
	// Blind reports whether this node has been unable to read or write the store for a while.
	Blind() bool
}

// report is a report of an attempt while it is sent to the owner of its run.
type report struct {
	Handler dag.HandlerID `json:"handler"`
	Report  engine.Report `json:"report"`
}

// Engine is the engine of this node.
type Engine interface {
	Hear(ctx context.Context, from dag.HandlerID, r engine.Report) (dag.Verdict, error)
	RunRow(ctx context.Context, id dag.RunID) (dag.RunRow, error)
	Submit(ctx context.Context, s engine.Submission) (engine.Accepted, error)
	Deposit(ctx context.Context, s engine.Submission) (engine.Accepted, error)
	CheckAll(ctx context.Context, list []engine.Suspect) (int, error)
	Missing(ctx context.Context, list []engine.Held) ([]engine.Held, error)
	Disown(ids []engine.AttemptID) error
}
