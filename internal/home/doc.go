// Package home lends slots. Workers lend slots to the node to which they are attached, and the nodes of a
// cluster lend slots to each other.
//
// A slot is room for one attempt. A worker is attached to one node, its home node. The home node counts the
// worker's slots in memory. It starts with the number that the worker gave when it registered. No other node
// counts them. The owner of a shard has ready tasks and no slots of workers, so it borrows slots from the
// homes. The slots of a node's own process are lent in the same way, if its own shards do not need them.
//
// The type slots in package engine is something else: it books the slots of this process.
//
// # The life of a slot
//
//	owner of the shard (purse)             home of the worker (account)                worker
//
//	Want ── ask{demands, returned} ──────► Ask: wants; returned slots are free again
//	                                       serve → give: claim, granted + 1
//	Granted ◄─────────── lent{granted} ─── tellOwners, until told = granted
//	credit.avail + 1; the writer wakes
//	Take: avail − 1, within a transaction
//	  ── the transaction commits ──
//	Handed ── delivery{assignments} ─────► Deliver → accept: used + 1
//	                                       begin → make the job (errand)
//	                                       answer of Poll ── Start ──────────────────► start
//	                                       Report ◄─────────────────────── result ──── end
//	                                       over → freed: lend it again, or vacate
//	Heard ◄─ word{report, lent} ────────── bring
//	first the slot, then the report: the
//	next task can be in that transaction
//	  ── the transaction commits ──
//	verdict ─────────────────────────────► answer of Report ─────────────────────────► acknowledge
//
// If the owner is the home, the same functions call each other without a message (grant, hearHere).
//
// # Why messages may be lost
//
// About slots, two nodes send each other only running totals, by worker, lease, owner and resources (type
// total): "granted so far" and "returned so far". Totals only rise. So if a message is lost, doubled or late,
// the next message corrects the effect. A delivery is repeated until the home has accepted it. It names
// attempts by their tokens, so the home recognises a repeated delivery (worker.has).
//
// The lease of a worker (store.Member.Lease) numbers its attachments: each Register raises it by one. Totals
// and deliveries of an older lease are ignored. The lease of a keeper is something else: the time for which
// attempts outlive the last renewal. Package cluster has its formula.
//
// # What the home believes
//
// The rows decide which attempts a worker has. The home reads them (affirm.go) before it gives a worker any
// data of an attempt, and does not rely on what a worker says about itself. It compares each poll with its
// own knowledge (compare in doubt.go):
//
//	the worker names an attempt that the home does not know   look it up; if it is not the worker's: stop it
//	the worker had confirmed an attempt and does not name it   report it as lost
//	the worker does not name an attempt that it was given      give it again (arrived)
//
// Invariant: a slot is used by at most one attempt at a time. Free slots are counted in one place (claim). An
// attempt takes a slot when it is delivered (accept), and returns it when its end is reported (over).
//
// Invariant: a slot may be lent and not used. It is free again when its owner returns it or is gone.
//
// # If a process dies
//
//	the owner    look drops its accounts: its idle slots are free. Its attempts continue, and the next owner of
//	             the shard gets their reports
//	the home     its counts are gone. The worker registers at another node, which counts what the worker runs
//	             (claimed). Owners see the higher lease and send again what the worker holds (Resend)
//	the worker   its keeper continues. The next process registers again. If none comes, its row is deposed, and
//	             Bury reports its attempts as lost
//
// # Reading order
//
//	home.go      what it needs; the loop
//	desk.go      worker, holding, account: what it knows of workers; Deliver. The type desk is in rpc.go
//	serve.go     which owner gets a free slot
//	roster.go    the workers with free slots, in the order in which they lend
//	purse.go     the owner's side: the engine's Market; the messages about slots
//	send.go      the owner's side: assignments on their way to their handlers
//	errands.go   from an assignment to the answer that brings its job
//	rpc.go       the protocol of workers (api/worker/v1): Poll, Report, Files, PushLogs, Leave
//	register.go  Register: attachment and its lease
//	hear.go      reports on their way to the owner
//	affirm.go, doubt.go, missing.go  what the rows say, what a worker says, what neither knows
//	there.go     members of the cluster, as they were last read
//	reads.go, artifacts.go, inputs.go  logs that only a worker has; files of attempts
package home
