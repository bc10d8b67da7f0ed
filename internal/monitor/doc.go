// Package monitor lets each node watch its peers over the node channel: whether a peer answers, whether it is
// ready, how its clock differs, and which nodes it cannot reach itself. A node keeps its sights in memory and
// shows them to people. It writes no row, and it decides nothing: the database says which members live, and
// which node owns a shard (package cluster).
package monitor
