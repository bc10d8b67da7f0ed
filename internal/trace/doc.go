// Package trace exports ended runs as traces, in the form of OTLP over HTTP with JSON.
//
// An Exporter is the part of a node that exports. The writer tells it which runs ended in a transaction that
// has committed. The exporter reads their rows, makes spans of them and sends these to the collector of the
// settings, on a goroutine of its own. Then it writes its position: the transaction of the shard up to which
// all ended runs are exported. An exporter that lacks the ends after the position (that of a new owner of the
// shard, or one whose queue was full) looks through the kept runs. So a run is exported at least once, unless
// retention deletes it before.
//
// The ids of traces and spans are derived from the run, the task and the token. A span that is sent again
// after a crash has the ids of the first time, and tasks know the ids of their span before it exists.
package trace
