// Package trace exports ended runs as traces, in the form of OTLP over HTTP with JSON.
//
// The Exporter of a node does the export. The writer passes the Exporter the runs that ended in each
// committed transaction. The Exporter reads their rows, makes spans from them, and sends the spans to the
// collector of the settings, in a goroutine of its own. Then it writes its position: the transaction of the
// shard up to which all ended runs are exported. If an Exporter lacks ends after the position, it searches
// the kept runs. This is the case for a new owner of a shard, or if the queue was full. So a run is exported
// at least once, unless retention deletes it earlier.
//
// The ids of traces and spans are derived from the run, the task and the token. So a span that is sent again
// after a crash has the same ids, and a task can know the ids of its span before the span exists.
package trace
