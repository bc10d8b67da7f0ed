package alert

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// The events of the cluster. They belong to no workflow. Each of them is a condition that lasts for some
// time.
const (
	NodeLost        Event = "node_lost"            // a node was declared dead and has not joined again
	WorkerLost      Event = "worker_lost"          // a worker was declared dead and has not joined again
	NoWorker        Event = "no_worker"            // ready tasks require a placement that no worker has
	NodeUnreachable Event = "node_unreachable"     // a node does not answer other nodes, although the database lists it
	NodeStuck       Event = "node_stuck"           // the writer or the broker of a node has completed no cycle although work waits
	ShardUnowned    Event = "shard_unowned"        // a shard has no owner
	StoreRegressed  Event = "store_regressed"      // the database went back to an earlier state
	DiskLow         Event = "disk_low"             // the disk of a data folder is nearly full
	CertificateEnds Event = "certificate_expiring" // the certificate of a node expires soon
	BackupOld       Event = "backup_old"           // the last backup is too old
	ClockSkew       Event = "clock_skew"           // the clock of a node differs from that of the database
	QueueOld        Event = "queue_old"            // the first run of a queue has waited for too long
	AuditBehind     Event = "audit_behind"         // rows of the audit log have no index yet, so no checkpoint covers them
	ChannelDown     Event = "channel_down"         // a channel does not accept its messages
	SourceDown      Event = "source_down"          // a source of events cannot reach the other system
	GitFailing      Event = "git_failing"          // the newest commit of a git source is not in force
)

// limit is the limit of an event that has one. below says that the condition is true below the limit;
// otherwise it is true from the limit on.
type limit struct {
	usual   int64 // in microseconds, or for DiskLow in hundredths of a percent
	below   bool
	percent bool
}

const (
	second = int64(1_000_000)
	minute = 60 * second
	day    = 24 * 60 * minute
)

// clusterEvents are the events of the cluster, with their limits.
var clusterEvents = map[Event]limit{
	NodeLost: {}, WorkerLost: {}, StoreRegressed: {}, ChannelDown: {}, NodeUnreachable: {},
	NoWorker: {usual: minute}, NodeStuck: {usual: 30 * second}, ShardUnowned: {usual: 30 * second}, QueueOld: {usual: 10 * minute}, SourceDown: {usual: 5 * minute}, GitFailing: {usual: 10 * minute},
	AuditBehind: {usual: 5 * minute}, ClockSkew: {usual: second}, BackupOld: {usual: 26 * 60 * minute},
	DiskLow: {usual: 1000, below: true, percent: true}, CertificateEnds: {usual: 14 * day, below: true},
}

// ClusterEvents lists the events of the cluster by name.
func ClusterEvents() []string {
	var all []string
	for e := range clusterEvents {
		all = append(all, string(e))
	}
	slices.Sort(all)
	return all
}

// Bounds of the rules of a cluster.
const (
	clusterRulesMax   = 20
	clusterToMax      = 10
	clusterToldMax    = 40
	clusterMessageMax = 1000 // bytes
	clusterNameMax    = 100  // bytes
	rungsMax          = 5
	// subjectsMax bounds the open incidents of one rule and event.
	subjectsMax = 50
	// subjectMax bounds a subject, in bytes.
	subjectMax = 200
)

// ClusterRule is a rule about the cluster.
type ClusterRule struct {
	Name     string   `json:"name"`
	On       []Event  `json:"on"`
	To       []string `json:"to"`
	Severity string   `json:"severity"`
	Message  string   `json:"message,omitempty"`
	Escalate []Rung   `json:"escalate,omitempty"`
	// Limit replaces the default limit of the event, in microseconds, or for DiskLow in hundredths of a
	// percent. 0 means the default. A rule with a limit has only one event.
	Limit int64 `json:"limit,omitempty"`
}

// ClusterRules are the rules of a cluster, in the form of a row of store.AlertRules.
type ClusterRules struct {
	Rules []ClusterRule `json:"rules"`
	// Floor is the floor of the eras when the rules were set. If the database went back before that, this
	// opens no incident.
	Floor dag.Era `json:"floor"`
}

// ReadClusterRules reads the rules of a row.
func ReadClusterRules(data []byte) (*ClusterRules, error) {
	var r ClusterRules
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("alert rules of the cluster: %w: %w", store.ErrCorrupt, err)
	}
	return &r, nil
}

// Check returns an error that names a faulty rule and its fault. If there is none, Check fills in the
// defaults.
func (c *ClusterRules) Check() error {
	names, told := map[string]bool{}, 0
	if len(c.Rules) > clusterRulesMax {
		return fmt.Errorf("there are %d rules, the limit is %d; one rule can watch several events", len(c.Rules), clusterRulesMax)
	}
	for i := range c.Rules {
		r := &c.Rules[i]
		if err := r.check(); err != nil {
			return fmt.Errorf("cluster[%d]: %w", i, err)
		}
		if names[r.Name] {
			return fmt.Errorf("cluster[%d]: two rules have the name %s; give one of the rules another name", i, r.Name)
		}
		names[r.Name] = true
		told += len(r.To)
		for _, rung := range r.Escalate {
			told += len(rung.To)
		}
	}
	if told > clusterToldMax {
		return fmt.Errorf("the rules name %d channels together, the limit is %d; a channel can reach many people", told, clusterToldMax)
	}
	return nil
}

func (r *ClusterRule) check() error {
	if len(r.On) == 0 {
		return fmt.Errorf("on is missing; events are: %s", strings.Join(ClusterEvents(), ", "))
	}
	for i, e := range r.On {
		if _, known := clusterEvents[e]; !known {
			return fmt.Errorf("unknown event %.60q; events are: %s", string(e), strings.Join(ClusterEvents(), ", "))
		}
		if slices.Contains(r.On[:i], e) {
			return fmt.Errorf("the event %s is listed twice", e)
		}
	}
	if r.Name == "" {
		r.Name = joined(r.On)
	}
	if r.Severity == "" {
		r.Severity = "error"
	}
	switch {
	case len(r.Name) > clusterNameMax || strings.ContainsAny(r.Name, " /\x00\n"):
		return fmt.Errorf("name %.60q: write 1 to %d bytes without blanks and slashes", r.Name, clusterNameMax)
	case !slices.Contains([]string{"info", "warning", "error", "critical"}, r.Severity):
		return fmt.Errorf("severity %.60q: write info, warning, error or critical", r.Severity)
	case len(r.To) == 0 || len(r.To) > clusterToMax:
		return fmt.Errorf("to names %d channels: a rule has 1 to %d", len(r.To), clusterToMax)
	case len(r.Message) > clusterMessageMax:
		return fmt.Errorf("the message has %d bytes, the limit is %d; shorten it", len(r.Message), clusterMessageMax)
	case r.Limit < 0 || r.Limit > 0 && (len(r.On) != 1 || clusterEvents[r.On[0]].usual == 0):
		return fmt.Errorf("limit is for a rule with one event that has a bound; give that event a rule of its own")
	case len(r.Escalate) > rungsMax:
		return fmt.Errorf("there are %d steps of escalation, the limit is %d", len(r.Escalate), rungsMax)
	}
	return checkRungs(r.Escalate)
}

func checkRungs(rungs []Rung) error {
	last := dag.Micros(0)
	for _, rung := range rungs {
		if rung.After <= last || rung.After > dag.Micros(90*day) {
			return fmt.Errorf("escalate: each step comes later than the one before it, and at most 90 days after the first message")
		}
		if last = rung.After; len(rung.To) == 0 || len(rung.To) > clusterToMax {
			return fmt.Errorf("escalate: a step names 1 to %d channels", clusterToMax)
		}
	}
	return nil
}

// joined returns the default name of a rule for these events.
func joined(on []Event) string {
	all := make([]string, len(on))
	for i, e := range on {
		all[i] = string(e)
	}
	name := strings.Join(all, "+")
	return name[:min(len(name), clusterNameMax)]
}

// Percent reports whether the limit of an event is a percentage.
func Percent(e Event) bool { return clusterEvents[e].percent }

// Bound returns the limit of an event of the rule, or 0 if the event has none.
func (r *ClusterRule) Bound(e Event) int64 {
	if r.Limit != 0 {
		return r.Limit
	}
	return clusterEvents[e].usual
}

// Finding is a measured condition, which may be true.
type Finding struct {
	Event   Event
	Subject string // the object that was measured, such as the name of a node; "" means the cluster
	// Value is the number to compare with the limit of the event. For an event without a limit, it is
	// ignored.
	Value int64
	// Cause distinguishes one occurrence of the condition from the next, for events that have such a mark.
	// Each occurrence opens only one incident, even if that one is resolved early.
	Cause   string
	Message string
	// Ages says that Value is the time since which this owner has seen the condition. An earlier owner may have
	// seen it for longer. So an open incident stays open although the value is below the limit.
	Ages bool
}

// Findings are the results of one measurement of the cluster.
type Findings struct {
	All []Finding
	// Unknown are events that could not be measured. Blind are subjects about which nothing is known now. The
	// incidents about both stay as they are.
	Unknown map[Event]bool
	Blind   map[string]bool
}

// stands reports whether a finding fulfils the rule's condition.
func (r *ClusterRule) stands(f *Finding) bool {
	if !slices.Contains(r.On, f.Event) {
		return false
	}
	b := r.Bound(f.Event)
	return b == 0 || clusterEvents[f.Event].below == (f.Value < b)
}

// near reports whether the value of a finding is so close to the limit that an open incident stays open.
// Without this, a value that moves around the limit would notify people at each measurement.
func (r *ClusterRule) near(f *Finding) bool {
	b := r.Bound(f.Event)
	if clusterEvents[f.Event].below {
		return f.Value < b+b/nearPerBound
	}
	return b != 0 && f.Value >= b-b/nearPerBound
}

// nearPerBound says which values are near a limit: those that differ from it by at most the limit divided by
// nearPerBound.
const nearPerBound = 10

// keyOf returns the key of an incident about the cluster, which is stored as its rule. The key is unique
// among the incidents that have not ended.
func keyOf(rule string, e Event, subject string) string {
	return rule + " " + string(e) + " " + subject
}

// ClusterIncident is an incident that should be open.
type ClusterIncident struct {
	Key     string
	Rule    *ClusterRule
	Finding *Finding
}

// Standing lists the incidents that should be open. stays has the keys of conditions that open no incident,
// but keep an open incident open.
func (c *ClusterRules) Standing(f *Findings) (all []ClusterIncident, stays map[string]bool) {
	stays = map[string]bool{}
	if c == nil {
		return nil, stays
	}
	for i := range c.Rules {
		r := &c.Rules[i]
		for k := range f.All {
			n := &f.All[k]
			n.Subject = strings.ToValidUTF8(n.Subject[:min(len(n.Subject), subjectMax)], "")
			switch key := keyOf(r.Name, n.Event, n.Subject); {
			case r.stands(n):
				all = append(all, ClusterIncident{key, r, n})
			case slices.Contains(r.On, n.Event) && (n.Ages || r.near(n)):
				stays[key] = true
			}
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Key < all[j].Key })
	return slices.CompactFunc(all, func(a, b ClusterIncident) bool { return a.Key == b.Key }), stays
}

// reported are the events about which nothing is known while a node does not answer. The node reports most of
// them itself. Whether the node is unreachable is known only after several calls.
var reported = []Event{DiskLow, CertificateEnds, ClockSkew, NodeStuck, NodeUnreachable}

// Kept reports whether an incident of the cluster stays open although its condition was not found, because
// the condition could not be measured.
func (f *Findings) Kept(n *Incident) bool {
	h := &n.Detail.Last
	return f.Unknown[h.Event] || slices.Contains(reported, h.Event) && f.Blind[h.Subject]
}

// Named finds a rule of the cluster.
func (c *ClusterRules) Named(name string) *ClusterRule {
	if c == nil {
		return nil
	}
	for i := range c.Rules {
		if c.Rules[i].Name == name {
			return &c.Rules[i]
		}
	}
	return nil
}

// Room reports whether a rule may open a further incident about an event.
func Room(open map[string]*Incident, rule string, e Event) bool {
	n := 0
	for _, is := range open {
		if is.Detail.Of == rule && is.Detail.Last.Event == e {
			n++
		}
	}
	return n < subjectsMax
}

// rule returns the rule in the form of a rule of a workflow.
func (r *ClusterRule) rule(key string, e Event) *Rule {
	return &Rule{Name: key, On: []Event{e}, To: r.To, Severity: r.Severity, Message: r.Message, Escalate: r.Escalate}
}

// Opens returns the change that opens an incident about the cluster.
func (c *ClusterIncident) Opens(id uuid.UUID, at dag.Micros) Change {
	f := c.Finding
	h := &Happening{Event: f.Event, Subject: f.Subject, Cause: f.Cause, Message: f.Message, At: at, ID: id,
		Of: Subject{Shard: store.GateShard, Namespace: store.SystemNamespace}}
	r := c.Rule.rule(c.Key, f.Event)
	n := begin(r, h)
	n.Detail.Of = c.Rule.Name
	return r.open(n, h)
}

// Told reports whether an earlier incident was already about the same occurrence.
func (c *ClusterIncident) Told(last *Incident) bool {
	return c.Finding.Cause != "" && last.Detail.Last.Cause == c.Finding.Cause
}

// AsRule returns the rule of an open incident of the cluster, for its silences and escalations. It returns an
// empty rule if the rules no longer contain it.
func (c *ClusterRules) AsRule(n *Incident) *Rule {
	if r := c.Named(n.Detail.Of); r != nil {
		return r.rule(n.Rule, n.Detail.Last.Event)
	}
	return &Rule{Name: n.Rule}
}
