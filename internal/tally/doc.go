// Package tally counts the ended runs of workflows by day and hour, with their durations. It counts the
// attempts of their tasks by day. The counts are kept after the runs are deleted.
//
// A run counts each time it ends. A run that failed and was recovered counts once as failed, and once with
// its next result. The attempts of its tasks count with the end of the run.
//
// The Folder of a node does the counting. The writer passes the Folder the runs that ended in each committed
// transaction. The Folder reads their rows, and writes counts together with a mark. The mark is the
// transaction of the shard up to which all ends are counted. If a Folder lacks ends after the mark, it
// searches the kept runs. This is the case for a new owner of a shard, or after a change of the era.
// Retention deletes no run with an end after the mark.
//
// Durations are stored in a histogram of at most 1,248 buckets. A percentile differs from the exact one by at
// most 1.6 %.
package tally
