// Package cluster makes a node a member of its cluster: it renews the node's row, deposes silent members, and
// computes which shards the node is to own. Nodes agree only through the database. All other calls between
// nodes only save time, and nothing depends on them.
//
// # Three numbers
//
// A member is a node or a worker. Each member has a row with a counter (store.Member.Beat).
//
//	beat   5 s     a member's counter is raised this often (Config.Beat; renewals)
//	look   500 ms  a node reads all members and shards this often (lookEvery; turn)
//	lag    20 s    a member whose counter has not moved for this long is dead (Config.Lag; watch.silent)
//
// With a registry (judge.go, package registry), a member whose session the registry has lost counts as dead
// after a shorter silence, quick. This is so only if the member's row promises that its leases are short
// enough: for such a member, quick takes the place of lag in the formula for the lease of a node below. The
// registry alone decides nothing.
//
// A node judges silence with its own monotonic clock, over reads that succeeded (watch.go). A gap between two
// reads, or a store that takes no renewals of this node, starts the count again. So neither an outage of the
// database nor a clock that was set declares a member dead.
//
// # One turn
//
//	turn ── read members and shards, compare them with what was confirmed (past.go)
//	     ├─ see      note counters; Owner.Bury: members that are gone lose their attempts
//	     ├─ depose   Store.Depose(handler, counter as read) removes a silent member and frees its shards,
//	     │           in one transaction; if the counter has moved meanwhile, nothing happens
//	     ├─ rise     raise the database's format if all nodes know a newer one
//	     ├─ own      assign: which shards belong to this node; Owner.Own takes the free ones, gives others back
//	     ├─ started  Config.Started, once, if the cluster starts with this node
//	     └─ heed     a cordoned node says in its row when it is empty
//
// assign (assign.go) is a pure function of the rows. All nodes compute the same owners, so no node has to
// lead. Taking a shard raises its epoch, and the epoch fences the previous owner: the store refuses
// everything that a deposed owner still sends.
//
// # The lease: attempts end before others may run them again
//
// A deposed member's attempts go to other members under new tokens. The old attempts must have ended by then.
// The keeper (package worker) ends them by itself when the lease ends, without any network. All instants are
// on the boot clock, which counts the sleep of the machine.
//
// The lease of a node:
//
//	sure   when the last renewal was sent that the store has confirmed (Sure)
//	lease  min(setting lease, 3/4 lag)                              (app.Config.lease)
//	end    sure + lease                                             (app.Node.renew, Link.Renew)
//
// The counter got its present value after the instant sure. A node that deposes this node has read that value
// even later, and has then waited for a lag. If it has read an older value, Depose changes nothing. So this
// node is deposed after sure + lag at the earliest. The last quarter of the lag is for ending the process
// trees.
//
// The lease of a worker, which renews nothing itself. Once per beat, its home node raises the worker's
// counter if the worker has polled:
//
//	sent    when the worker sent the poll that was answered
//	sure    when the home sent the last confirmed renewal of the worker's row
//	behind  max(0, arrival of the poll − max(sure, vouched) − lag/4)   (Home.behind)
//	end     sent − behind + min(setting lease, 3/4 lag)                (remote.Worker.renew)
//
// A poll cannot arrive before it is sent, so end ≤ sure + lag/4 + 3/4 lag = sure + lag.
//
// vouched (Vouched) is the last instant at which this node and all other nodes that it knows were blind: none
// of them could read and write the store. No node can depose a member while all are blind, so such an instant
// counts like a confirmed renewal. A node that does not answer does not count as blind (vouch, Blind). While
// the outcome of a Depose may be unknown, a node must not say that it is blind (decides).
//
// A node on SQLite is alone with its workers (alone.go): no member can take its attempts, so it renews from
// the present instant. It lists its workers as a cluster does, and deposes a silent one after the lag. Only
// this process changes their rows, so it counts their beats in memory. The next process of the node counts
// silence from its own start, which is later than the last poll that its predecessor answered.
//
// Invariant: a member is deposed only after the lease of each of its attempts has ended.
//
// Invariant: a node that was deposed writes nothing. Its epochs are old, and it joins again only under a new
// handler (rejoin), after it has ended its attempts (Owner.Reborn).
//
// # If the process dies
//
// A node that stops releases its shards and leaves. A node that dies is deposed after the lag. If a process
// starts under its name before that, Join replaces the row at once. The attempts continue in the keeper until
// the lease ends, and the new process takes them over if it starts in time.
//
// Reading order: watch.go (silence), assign.go (the spread of shards), cluster.go (the turn, the row),
// sure.go (the lease), judge.go (the registry), retry.go (pauses while the database is away), started.go,
// heed.go, past.go, alone.go.
package cluster
