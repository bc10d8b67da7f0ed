package api

// ClusterAlerts are the alert rules about the cluster. They belong to no workflow.
type ClusterAlerts struct {
	Rules      []ClusterAlert `json:"rules" nullable:"false"`
	Version    int64          `json:"version" doc:"How often they were set; 0: never."`
	User       *string        `json:"user" doc:"The user who set them last."`
	ModifiedAt *Time          `json:"modified_at" format:"date-time"`
}

// ClusterAlert is a rule about the cluster. Its channels are those of the namespace system.
type ClusterAlert struct {
	Name       string           `json:"name,omitempty" maxLength:"100" doc:"Its identity across edits; default: its events."`
	On         []string         `json:"on" nullable:"false" doc:"The conditions that it watches: audit_behind, backup_old, certificate_expiring, channel_down, clock_skew, disk_low, git_failing, no_worker, node_lost, node_stuck, node_unreachable, queue_old, shard_unowned, source_down, store_regressed, worker_lost."`
	To         []string         `json:"to" nullable:"false" doc:"Channels of the namespace system."`
	Severity   string           `json:"severity,omitempty" doc:"info, warning, error (default) or critical."`
	Message    string           `json:"message,omitempty" maxLength:"1000" doc:"A text for the people who are notified."`
	Limit      string           `json:"limit,omitempty" maxLength:"30" doc:"The bound of its event, such as 10% (disk_low) or 14d. Only for a rule with one event that has a bound."`
	Escalation []EscalationStep `json:"escalation,omitempty" doc:"Further channels, which are notified if the alert is still open and not acknowledged by then."`
}

// ClusterAlertsRequest replaces the alert rules about the cluster.
type ClusterAlertsRequest struct {
	Rules []ClusterAlert `json:"rules" nullable:"false" doc:"None: no alerts about the cluster."`
}
