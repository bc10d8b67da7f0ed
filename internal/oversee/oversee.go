// Package oversee measures the state of the cluster for the alert rules that belong to no workflow, such as a
// lost node or a full disk. The owner of the first shard measures, the rules judge (package alert), and the
// engine writes incidents. A node measures only what a rule watches. Without rules it reads one small table
// at each look.
package oversee

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/gitsync"
	"skein.dev/skein/internal/monitor"
	"skein.dev/skein/internal/store"
)

const (
	// lookEvery is the time between two looks.
	lookEvery = 5 * time.Second
	// lookMax bounds a look.
	lookMax = 30 * time.Second
	// troubleFor is the time for which a lost message shows that a channel is down.
	troubleFor = time.Hour
	// workerLostFor is how long a worker that does not come back counts as lost.
	workerLostFor = 24 * time.Hour
	// gitPage is the number of git sources per read.
	gitPage = 100
)

// Store is the part of the store that a measurement reads.
type Store interface {
	store.Alerts
	store.Eras
	store.GitSources
	Clock(ctx context.Context) (dag.Micros, error)
	AuditFresh(ctx context.Context, limit int) ([]store.Audit, error)
}

// Config holds the surroundings of an Overseer.
type Config struct {
	Store   Store
	Owns    func(dag.ShardID) bool
	Members func(ctx context.Context) ([]store.Member, []store.ShardRow, error)
	Peers   *monitor.Monitor
	// Queues returns for how long the first run of each queue has waited.
	Queues func(ctx context.Context) (map[string]time.Duration, error)
	// Observe writes what follows from the findings.
	Observe func(ctx context.Context, rules *alert.ClusterRules, f *alert.Findings) error
	Log     *slog.Logger
}

// Overseer looks at the cluster while its node owns the first shard.
type Overseer struct {
	cfg   Config
	clean bool // there are no rules, and no incident is open
	since map[alert.Event]time.Time
	told  string // the last error in the log
}

// New returns an Overseer. It does nothing before Run.
func New(cfg Config) *Overseer { return &Overseer{cfg: cfg, since: map[alert.Event]time.Time{}} }

// Run makes one look after another until ctx ends.
func (o *Overseer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, lookMax)
		err := o.Look(within)
		cancel()
		if err != nil && ctx.Err() == nil && err.Error() != o.told {
			o.cfg.Log.Warn("the alerts about the cluster cannot be checked now; the node tries again", "code", "cluster_unjudged", "err", err)
		}
		if o.told = ""; err != nil {
			o.told = err.Error()
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}

// Look measures once, if this node owns the first shard.
func (o *Overseer) Look(ctx context.Context) error {
	if !o.cfg.Owns(store.GateShard) {
		o.clean = false
		clear(o.since)
		return nil
	}
	rules, err := o.rules(ctx)
	if err != nil || rules == nil && o.clean {
		return err
	}
	f := &alert.Findings{Unknown: map[alert.Event]bool{}, Blind: map[string]bool{}}
	if rules != nil {
		o.measure(ctx, rules, f)
	}
	err = o.cfg.Observe(ctx, rules, f)
	o.clean = err == nil && rules == nil
	return err
}

// rules reads the rules about the cluster. They are nil if there are none.
func (o *Overseer) rules(ctx context.Context) (*alert.ClusterRules, error) {
	rows, err := o.cfg.Store.AlertRules(ctx)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if rows[i].Namespace == store.SystemNamespace {
			rules, err := alert.ReadClusterRules(rows[i].Data)
			if err != nil || len(rules.Rules) == 0 {
				return nil, err
			}
			return rules, nil
		}
	}
	return nil, nil
}

// measure measures all conditions that the rules watch. A condition that cannot be measured is unknown.
func (o *Overseer) measure(ctx context.Context, rules *alert.ClusterRules, f *alert.Findings) {
	var watched []alert.Event
	for i := range rules.Rules {
		watched = append(watched, rules.Rules[i].On...)
	}
	members, shards, away := o.cfg.Members(ctx)
	for _, part := range []struct {
		of  []alert.Event
		run func() error
	}{
		{[]alert.Event{alert.NodeLost, alert.WorkerLost}, func() error {
			if away != nil {
				return away
			}
			return o.lost(ctx, members, f)
		}},
		{[]alert.Event{alert.ShardUnowned}, func() error {
			if away == nil {
				o.unowned(members, shards, f)
			}
			return away
		}},
		{[]alert.Event{alert.StoreRegressed}, func() error { return o.regressed(ctx, rules.Floor, f) }},
		{[]alert.Event{alert.QueueOld}, func() error { return o.queues(ctx, f) }},
		{[]alert.Event{alert.AuditBehind}, func() error { return o.audit(ctx, f) }},
		{[]alert.Event{alert.ChannelDown}, func() error { return o.channels(ctx, f) }},
		{[]alert.Event{alert.GitFailing}, func() error { return o.gits(ctx, f) }},
	} {
		if !slices.ContainsFunc(part.of, func(e alert.Event) bool { return slices.Contains(watched, e) }) {
			continue
		}
		failed := part.run()
		for _, e := range part.of {
			f.Unknown[e] = failed != nil
		}
	}
	o.nodes(members, f)
}

func (o *Overseer) lost(ctx context.Context, members []store.Member, f *alert.Findings) error {
	all, err := o.cfg.Store.LostMembers(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	now, err := o.cfg.Store.Clock(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		m, kept, event := &all[i], store.LostMembersKept, alert.NodeLost
		if m.Worker {
			kept, event = workerLostFor, alert.WorkerLost
		}
		back := slices.ContainsFunc(members, func(is store.Member) bool { return is.Name == m.Name })
		if back || m.At < now-dag.Micros(kept.Microseconds()) {
			continue
		}
		f.All = append(f.All, alert.Finding{Event: event, Subject: m.Name, Cause: fmt.Sprintf("handler %d", m.Handler),
			Message: "at " + m.At.Time().UTC().Format(time.RFC3339) + ", because it had been silent for too long"})
	}
	return nil
}

// ages adds a finding whose bound is the time since which this node has seen it.
func (o *Overseer) ages(f *alert.Findings, e alert.Event, stands bool, message string) {
	if !stands {
		delete(o.since, e)
		return
	}
	now := time.Now()
	if o.since[e].IsZero() {
		o.since[e] = now
	}
	f.All = append(f.All, alert.Finding{Event: e, Value: now.Sub(o.since[e]).Microseconds(), Message: message, Ages: true})
}

func (o *Overseer) unowned(members []store.Member, shards []store.ShardRow, f *alert.Findings) {
	var none []string
	for i := range shards {
		if !slices.ContainsFunc(members, func(m store.Member) bool { return !m.Worker && m.Handler == shards[i].Owner }) {
			none = append(none, fmt.Sprint(shards[i].ID))
		}
	}
	o.ages(f, alert.ShardUnowned, len(none) > 0, fmt.Sprintf("%d of %d: %s", len(none), len(shards), strings.Join(none, ", ")))
}

func (o *Overseer) regressed(ctx context.Context, before dag.Era, f *alert.Findings) error {
	marks, err := o.cfg.Store.Marks(ctx)
	if floor := store.FloorOf(marks); err == nil && floor > before {
		f.All = append(f.All, alert.Finding{Event: alert.StoreRegressed, Cause: fmt.Sprintf("era %d", floor),
			Message: fmt.Sprintf("era %d began because of a loss; what was confirmed in the lost time may be gone", floor)})
	}
	return err
}

func (o *Overseer) queues(ctx context.Context, f *alert.Findings) error {
	ages, err := o.cfg.Queues(ctx)
	for name, age := range ages {
		f.All = append(f.All, alert.Finding{Event: alert.QueueOld, Subject: name, Value: age.Microseconds(),
			Message: fmt.Sprintf("the first run has waited for %s", age.Round(time.Second))})
	}
	return err
}

func (o *Overseer) audit(ctx context.Context, f *alert.Findings) error {
	fresh, err := o.cfg.Store.AuditFresh(ctx, 1)
	if err != nil || len(fresh) == 0 {
		return err
	}
	now, err := o.cfg.Store.Clock(ctx)
	if err == nil {
		f.All = append(f.All, alert.Finding{Event: alert.AuditBehind, Value: int64(now - fresh[0].At),
			Message: "a row of " + fresh[0].At.Time().UTC().Format(time.RFC3339) + " has no place yet, so no checkpoint has it; look for audit_behind in the logs of the nodes"})
	}
	return err
}

func (o *Overseer) channels(ctx context.Context, f *alert.Findings) error {
	now, err := o.cfg.Store.Clock(ctx)
	if err != nil {
		return err
	}
	all, err := o.cfg.Store.AlertTroubles(ctx, now-dag.Micros(troubleFor.Microseconds()))
	for i := range all {
		t := &all[i]
		f.All = append(f.All, alert.Finding{Event: alert.ChannelDown, Subject: t.Namespace + "/" + t.Name,
			Message: fmt.Sprintf("%d messages wait after a failed call, %d were lost within an hour", t.Pending, t.Lost)})
	}
	return err
}

// gits finds the git sources whose newest commit is not in force. Their rows contain the time since which
// this is so.
func (o *Overseer) gits(ctx context.Context, f *alert.Findings) error {
	for ns, name := "", ""; ; {
		all, err := o.cfg.Store.GitSourceList(ctx, ns, name, gitPage)
		if err != nil {
			return err
		}
		for i := range all {
			if is := gitsync.ReadState(all[i].State).Failing; is != nil {
				f.All = append(f.All, alert.Finding{Event: alert.GitFailing, Subject: all[i].Namespace + "/" + all[i].Name, Value: time.Since(is.Since).Microseconds(),
					Message: "since " + is.Since.UTC().Format(time.RFC3339) + ": " + is.Why})
			}
		}
		if len(all) < gitPage {
			return nil
		}
		ns, name = all[len(all)-1].Namespace, all[len(all)-1].Name
	}
}

// nodes adds the findings about the nodes, from their reports about themselves and each other. It reads only
// memory. The state of a node that has not answered yet is unknown. After the start of this process, this is
// the case for every node.
func (o *Overseer) nodes(members []store.Member, f *alert.Findings) {
	self, sights := o.cfg.Peers.Self(), o.cfg.Peers.Sights()
	reports, newest, unserved := []monitor.Report{self}, self.Backup, self.Unserved
	for i := range members {
		if m := &members[i]; !m.Worker && m.Name != self.Node {
			f.Blind[m.Name] = true
		}
	}
	unreachable := func(node string, by []string) {
		if len(by) > 0 {
			f.All = append(f.All, alert.Finding{Event: alert.NodeUnreachable, Subject: node, Message: "not reached by " + strings.Join(by, ", ")})
		}
	}
	unreachable(self.Node, o.cfg.Peers.CutBy())
	for i := range sights {
		s := &sights[i]
		unreachable(s.Node, notReachedBy(s, &self, sights))
		if f.Blind[s.Node] = !s.Reached; !s.Reached {
			continue
		}
		reports = append(reports, s.Report)
		unserved += s.Report.Unserved
		if s.Report.Backup.After(newest) {
			newest = s.Report.Backup
		}
	}
	for i := range reports {
		ofNode(&reports[i], f)
	}
	blind := slices.Contains(slices.Collect(maps.Values(f.Blind)), true)
	o.ages(f, alert.NoWorker, unserved > 0, fmt.Sprintf("%d placements; skein explain of a waiting run names them", unserved))
	f.Unknown[alert.NoWorker], f.Unknown[alert.SourceDown] = blind, blind
	if f.Unknown[alert.BackupOld] = blind; blind { // a node that does not answer may know of a newer backup
		return
	}
	backup := alert.Finding{Event: alert.BackupOld, Value: math.MaxInt64, Message: "no node has a note of a backup"}
	if !newest.IsZero() {
		backup.Value, backup.Message = time.Since(newest).Microseconds(), "the last one was made at "+newest.UTC().Format(time.RFC3339)
	}
	f.All = append(f.All, backup)
}

// notReachedBy lists the nodes that do not reach a peer.
func notReachedBy(s *monitor.Sight, self *monitor.Report, sights []monitor.Sight) (by []string) {
	if s.Unreachable() {
		by = append(by, self.Node)
	}
	for i := range sights {
		if o := &sights[i]; o.Reached && slices.Contains(o.Report.Unreached, s.Node) {
			by = append(by, o.Node)
		}
	}
	slices.Sort(by)
	return by
}

// ofNode evaluates what a node reports about itself.
func ofNode(r *monitor.Report, f *alert.Findings) {
	add := func(e alert.Event, value int64, message string) {
		f.All = append(f.All, alert.Finding{Event: e, Subject: r.Node, Value: value, Message: message})
	}
	for i := range r.Sources {
		is := &r.Sources[i]
		f.All = append(f.All, alert.Finding{Event: alert.SourceDown, Subject: is.Trigger, Value: time.Since(is.Since).Microseconds(),
			Message: "since " + is.Since.UTC().Format(time.RFC3339) + ": " + is.Why})
	}
	add(alert.NodeStuck, r.Stuck.Microseconds(), fmt.Sprintf("it has completed no turn for %s although work waits", r.Stuck.Round(time.Second)))
	if r.DiskTotal > 0 {
		share := int64(float64(r.DiskFree) / float64(r.DiskTotal) * 10_000)
		add(alert.DiskLow, share, fmt.Sprintf("%.1f %% are free, %d MiB", float64(share)/100, r.DiskFree>>20))
	}
	if !r.Expires.IsZero() {
		add(alert.CertificateEnds, time.Until(r.Expires).Microseconds(), "it is valid until "+r.Expires.UTC().Format(time.RFC3339))
	}
	if r.Skewed {
		add(alert.ClockSkew, r.Skew.Abs().Microseconds(), fmt.Sprintf("by %s", r.Skew.Round(time.Millisecond)))
	} else {
		f.Unknown[alert.ClockSkew] = true
	}
}
