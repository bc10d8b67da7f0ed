package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/metric"
)

// Parts of the time to live of a session: see the comment of the package.
const (
	looksPerTTL    = 8
	renewalsPerTTL = 4
	callsPerTTL    = 4
	gracesPerTTL   = 4
	gapsPerTTL     = 2
	quickNum       = 3
	quickDen       = 2
)

// QuickOf returns the silence after which a member counts as dead if it has lost its session in a registry
// with this time to live.
func QuickOf(ttl time.Duration) time.Duration { return ttl * quickNum / quickDen }

// knownFor bounds how long the judge remembers a life that is no longer listed. By then the lag of the
// database has decided about the member.
const knownFor = 10 * time.Minute

// Config is the configuration of a judge. Registry and TTL are required.
type Config struct {
	Registry Registry
	Where    string        // the address, for log lines, without secrets
	TTL      time.Duration // time to live of sessions
	Patience time.Duration // the length of an outage that Lost reports; 0 means that it reports none
	Host     host.Host     // the machine; nil means the real one
	Log      *slog.Logger  // nil if there is none
}

// Judge keeps the session of a node in a registry, and reports which lives have lost their sessions. A nil
// *Judge reports none.
type Judge struct {
	cfg  Config
	host host.Host
	log  *slog.Logger

	mu     sync.Mutex // protects following fields
	viewed time.Time  // time of the last list that this node accepted
	// known contains the lives that were listed during this session of the node.
	known map[string]bool
	// since contains the time at which a known life was first missing. Invariant: no entry is earlier than
	// the end of the last gap.
	since    map[string]time.Time
	sessions int64 // sessions that began
	away     time.Time
	isAway   bool

	lost chan error // capacity 1; see Lost
}

// NewJudge returns a judge. It makes no call before Run.
func NewJudge(cfg Config) *Judge {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Judge{cfg: cfg, host: host.Or(cfg.Host), log: cfg.Log, lost: make(chan error, 1)}
}

// Lost returns a channel that gets one error when the registry has not answered for Config.Patience.
func (j *Judge) Lost() <-chan error {
	if j == nil {
		return nil
	}
	return j.lost
}

// Quick returns the silence after which a member counts as dead if it has lost its session. It returns 0 if
// there is no registry.
func (j *Judge) Quick() time.Duration {
	if j == nil {
		return 0
	}
	return QuickOf(j.cfg.TTL)
}

// Gone reports whether a life that was listed has lost its session. It returns false if the registry does not
// answer.
func (j *Judge) Gone(uuid string) bool {
	if j == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.host.Now()
	since, missing := j.since[uuid]
	return missing && now.Sub(j.viewed) <= j.cfg.TTL/gapsPerTTL && now.Sub(since) >= j.cfg.TTL/gracesPerTTL
}

// Run keeps a session for the life that self returns, and reads the list, until ctx ends.
func (j *Judge) Run(ctx context.Context, self func() (uuid, name string)) {
	if j == nil {
		return
	}
	for ctx.Err() == nil {
		err := j.session(ctx, self)
		j.forget()
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, ErrEnded) {
			j.told(err)
		}
		// The jitter spreads the calls of nodes that lost the registry at the same time.
		pause := j.cfg.TTL / looksPerTTL
		j.host.Await(ctx, nil, pause/2+j.host.Jitter(pause))
	}
}

// session runs one session. It ends when ctx ends, when the life of the session ends, or at an error.
func (j *Judge) session(ctx context.Context, self func() (uuid, name string)) error {
	uuid, name := self()
	calling, over := j.bound(ctx)
	s, err := j.cfg.Registry.Announce(calling, Life{UUID: uuid, Name: name})
	over()
	if err != nil {
		return err
	}
	defer func() {
		leaving, left := j.bound(context.WithoutCancel(ctx))
		defer left()
		_ = s.Leave(leaving) // an error means that the session ends by itself
	}()
	j.mu.Lock()
	j.sessions++
	j.mu.Unlock()
	renewed := j.host.Now()
	for ctx.Err() == nil {
		if is, _ := self(); is != uuid {
			return nil
		}
		began := j.host.Now()
		if err := j.step(ctx, s, uuid, &renewed); err != nil {
			return err
		}
		j.host.Await(ctx, nil, max(j.cfg.TTL/looksPerTTL-j.host.Now().Sub(began), 0))
	}
	return nil
}

// step renews the session if it is due, and reads the list. It repeats a failed call until the session must
// have ended.
func (j *Judge) step(ctx context.Context, s Session, uuid string, renewed *time.Time) error {
	var err error
	if now := j.host.Now(); now.Sub(*renewed) >= j.cfg.TTL/renewalsPerTTL {
		calling, over := j.bound(ctx)
		err = s.Renew(calling)
		over()
		if err == nil {
			*renewed = now
		}
	}
	if err == nil {
		var list []string
		calling, over := j.bound(ctx)
		list, err = s.List(calling)
		over()
		if err == nil {
			err = j.see(list, uuid)
		}
	}
	switch {
	case err == nil:
		j.told(nil)
		return nil
	case errors.Is(err, ErrEnded):
		j.log.Info("the registry has ended the session of this node; a new one begins", "code", "registry_session_ended", "registry", j.cfg.Where)
		return err
	case j.host.Now().Sub(*renewed) > j.cfg.TTL:
		return err
	}
	j.mu.Lock()
	late := j.host.Now().Sub(j.viewed) > j.cfg.TTL/gapsPerTTL
	j.mu.Unlock()
	if late { // a single failed call is not an outage
		j.told(err)
	}
	return nil
}

func (j *Judge) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, j.cfg.TTL/callsPerTTL)
}

// see processes a list. It returns ErrEnded if the list lacks this node.
func (j *Judge) see(list []string, self string) error {
	if len(list) > livesMax {
		return fmt.Errorf("the registry lists %d lives, more than %d: give each cluster a path of its own in the setting registry", len(list), livesMax)
	}
	if !slices.Contains(list, self) {
		return ErrEnded
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.host.Now()
	if j.known == nil {
		j.known = map[string]bool{}
	}
	if j.since == nil || now.Sub(j.viewed) > j.cfg.TTL/gapsPerTTL {
		j.since = map[string]time.Time{}
	}
	j.viewed = now
	listed := make(map[string]bool, len(list))
	for _, uuid := range list {
		listed[uuid], j.known[uuid] = true, true
	}
	for uuid := range j.known {
		since, missing := j.since[uuid]
		switch {
		case listed[uuid]:
			delete(j.since, uuid)
		case !missing:
			j.since[uuid] = now
		case now.Sub(since) > knownFor:
			delete(j.since, uuid)
			delete(j.known, uuid)
		}
	}
	return nil
}

// forget removes all data of a session.
func (j *Judge) forget() {
	j.mu.Lock()
	j.known, j.since = nil, nil
	j.mu.Unlock()
}

// told logs when a registry stops answering, and when it answers again. It also reports a long outage.
func (j *Judge) told(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.host.Now()
	switch {
	case err != nil && !j.isAway:
		j.isAway, j.away = true, now
		j.log.Warn("the registry does not answer; until it does, only the database tells which members are dead, after the lag",
			"code", "registry_away", "registry", j.cfg.Where, "err", err)
	case err != nil && j.cfg.Patience > 0 && now.Sub(j.away) >= j.cfg.Patience:
		select {
		case j.lost <- fmt.Errorf("the registry %s has not answered for %v, and registry_away is stop, so this node ends: %w", j.cfg.Where, j.cfg.Patience, err):
		default:
		}
	case err == nil && j.isAway:
		j.isAway = false
		j.log.Info("the registry answers again", "code", "registry_back", "registry", j.cfg.Where, "after", now.Sub(j.away).Round(time.Millisecond))
	}
}

// Show shows the registry on a page of metrics.
func (j *Judge) Show(p *metric.Page) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	fresh := !j.viewed.IsZero() && j.host.Now().Sub(j.viewed) <= j.cfg.TTL/gapsPerTTL
	p.Set("registry_up", metric.Bool(fresh && !j.isAway))
	p.Set("registry_sessions_total", float64(j.sessions))
}
