// Package home moves slots: between this node and the workers that are attached to it, and between the nodes
// of a cluster.
//
// A slot is room for one attempt. A worker is attached to one node, its home node. The home counts the
// worker's slots in memory, from what the worker said when it registered. No other node counts them. The
// owner of a shard has ready tasks and no slots of workers, so it borrows slots from the homes. What a node's
// own process can run is lent in the same way, if its own shards have no use for it.
//
// Do not confuse it with the type home in package engine, which books the slots of this process.
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
// All that two nodes say to each other about slots are running totals, by worker, lease, owner and room (type
// total): "granted so far", "returned so far". They only rise. A message that is lost, doubled or late
// changes nothing that the next one does not set right. A delivery is repeated until the home has taken it,
// and names attempts by their tokens, so a repeated delivery is recognised (worker.has).
//
// The lease of a worker (store.Member.Lease) numbers its attachments: each Register raises it by one. Totals
// and deliveries of an older lease do not count. It is another thing than the lease of a keeper, which is the
// time that attempts outlive the last renewal; internal/cluster has the formula.
//
// # What the home believes
//
// The rows decide which attempts a worker has. The home asks them (affirm.go) before it gives a worker
// anything of an attempt, and takes nothing that a worker says of itself for granted. It compares each poll
// with what it knows (compare in doubt.go):
//
//	the worker names an attempt that the home does not know   look it up; if it is not the worker's: stop it
//	the worker had confirmed an attempt and does not name it   report it as lost
//	the worker does not name an attempt that it was given      give it again (arrived)
//
// Invariant: a slot is used by at most one attempt at a time. Free slots are counted in one place (claim); an
// attempt takes one when it is delivered (accept), and gives it back when its end is reported (over).
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
