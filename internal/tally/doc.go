// Package tally counts the ended runs of workflows by day and hour, with their durations, and the attempts
// of their tasks by day. The counts outlive the runs.
//
// A run counts each time it ends: a run that failed and was recovered counts as failed once, and again when
// it ends after that. The attempts of its tasks count with the end of the run.
//
// A Folder is the part of a node that counts. The writer tells it which runs ended in a transaction that has
// committed. The folder reads their rows and writes counts together with a mark: the transaction of the
// shard up to which all ends are counted. A folder that lacks the ends after the mark (that of a new owner
// of the shard, or after a change of the era) looks through the kept runs. Retention deletes no run with an
// end after the mark.
//
// Durations are in a histogram of at most 1,248 buckets. A percentile is at most 1.6 % away from the exact
// one.
package tally
