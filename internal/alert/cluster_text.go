package alert

import (
	"fmt"
	"strings"
)

// clusterTexts say what each event of the cluster means. %s is the subject.
var clusterTexts = map[Event]string{
	NodeLost: "node %s was declared dead", WorkerLost: "worker %s was declared dead",
	NoWorker: "ready tasks wait for a worker that does not exist", NodeUnreachable: "node %s does not answer other nodes",
	NodeStuck: "node %s makes no progress", ShardUnowned: "shards have no owner", StoreRegressed: "the database went back to an earlier state",
	DiskLow: "the disk of node %s is nearly full", CertificateEnds: "the certificate of node %s expires soon",
	BackupOld: "the last backup is too old", ClockSkew: "the clock of node %s differs from that of the database",
	QueueOld: "runs wait for long in queue %s", AuditBehind: "the audit log does not advance", ChannelDown: "channel %s does not take its messages",
	SourceDown: "the source of trigger %s is away", GitFailing: "the newest commit of git source %s is not in force",
}

// condition says in words what an event of the cluster means.
func (h *Happening) condition() string {
	text := clusterTexts[h.Event]
	if strings.Contains(text, "%s") {
		return fmt.Sprintf(text, h.Subject)
	}
	return text
}
