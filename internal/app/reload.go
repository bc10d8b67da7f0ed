package app

import (
	"log/slog"
	"slices"
	"strings"
	"sync"

	"skein.dev/skein/internal/workflow"
)

// settled holds the settings of a running process: those of its start and their later changes.
type settled struct {
	log *slog.Logger
	// read reads the files that new settings name, before the settings are in force. It is nil if there are
	// none.
	read func(to *Config) error
	// apply puts a setting into force. It returns false if that needs a restart.
	apply func(name string, to *Config) bool
	// ignored are settings whose values this process reads again by itself.
	ignored []string

	reading sync.Mutex // held while the settings are read again

	mu    sync.Mutex // protects following fields
	start *Config
	now   map[string]string // values of settings that changed since the start
}

func newSettled(cfg *Config, log *slog.Logger) *settled {
	cfg.levels()
	return &settled{log: log, start: cfg, now: map[string]string{}}
}

// value returns a setting as it holds now. The lock is held.
func (s *settled) value(name string) string {
	if name == levelSetting {
		return s.Level()
	}
	if v, ok := s.now[name]; ok {
		return v
	}
	for _, v := range s.start.Values {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// Level implements server.LogLevel.
func (s *settled) Level() string { return strings.ToLower(s.start.levels().Level().String()) }

// SetLevel implements server.LogLevel.
func (s *settled) SetLevel(level, by string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from := s.Level(); from != level {
		s.changed(levelSetting, from, level, by)
	}
}

const levelSetting = "log_level"

// changed logs a change of a setting. If the setting is the log level, it also sets the level: after the
// line if the log becomes quieter, before it otherwise.
func (s *settled) changed(name, from, to, by string) {
	louder := name == levelSetting && levelOf(to) < levelOf(from)
	if louder {
		s.start.levels().Set(levelOf(to))
	}
	s.log.Info("setting changed", "code", "setting_changed", "setting", name, "from", from, "to", to, "by", by)
	if name == levelSetting && !louder {
		s.start.levels().Set(levelOf(to))
	}
}

// reload reads the settings again and puts those into force that can change while the process runs. It names
// the others. If the settings cannot be read, it changes nothing. It does not wait: a file of settings may be
// on a disk that does not answer, and the caller handles signals.
func (s *settled) reload(load func() (*Config, error)) {
	if !s.reading.TryLock() {
		s.log.Warn("the settings are still being read; send HUP again later", "code", "reload_under_way")
		return
	}
	go func() {
		defer s.reading.Unlock()
		to, err := load()
		if err == nil && s.read != nil {
			err = s.read(to)
		}
		if err != nil {
			s.log.Error("the settings could not be read again; nothing changed", "code", "reload_failed", "err", err)
			return
		}
		s.put(to)
	}()
}

// put puts the changed settings into force, and names those that need a restart.
func (s *settled) put(to *Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fixed, changed := []string(nil), false
	for _, v := range s.inOrder(to.Values) {
		from := s.value(v.Name)
		name, differs := s.differs(&v, from, to)
		if !differs || slices.Contains(s.ignored, v.Name) {
			continue
		}
		if !s.apply(name, to) {
			if !slices.Contains(fixed, name) {
				fixed = append(fixed, name)
			}
			continue
		}
		changed = true
		s.now[v.Name] = v.Value
		s.changed(name, from, v.Value, v.Origin)
	}
	switch {
	case len(fixed) > 0:
		s.log.Warn("changed settings need a restart", "code", "settings_need_restart", "settings", strings.Join(fixed, ","))
	case !changed:
		s.log.Info("the settings were read again; none changed", "code", "settings_unchanged")
	}
}

// inOrder puts the level of the log first if the log becomes louder, and last if it becomes quieter, so
// that the log has a line for each change.
func (s *settled) inOrder(values []Value) []Value {
	rest, level := slices.Clone(values), Value{}
	for i, v := range rest {
		if v.Name == levelSetting {
			rest, level = slices.Delete(rest, i, i+1), v
			break
		}
	}
	if levelOf(level.Value) > s.start.levels().Level() {
		return append(rest, level)
	}
	return append([]Value{level}, rest...)
}

// follow calls reload with each load that comes, until stop is called.
func (s *settled) follow(loads <-chan func() (*Config, error)) (stop func()) {
	over, wait := make(chan struct{}), sync.WaitGroup{}
	wait.Go(func() {
		for {
			select {
			case load := <-loads:
				s.reload(load)
			case <-over:
				return
			}
		}
	})
	return func() {
		close(over)
		wait.Wait()
	}
}

// differs compares a setting with the one in force, and names the setting that the operator changed. A
// default may depend on the machine, so two defaults are equal. A value that is not shown is compared where
// it is used.
func (s *settled) differs(v *Value, from string, to *Config) (name string, differs bool) {
	a, b := s.start, to
	switch v.Name {
	case "db":
		return settingOf(v, "db_file"), a.Postgres != b.Postgres || a.DB != b.DB
	case "api_token":
		return settingOf(v, "token_file"), a.APIToken != b.APIToken
	case "egress_proxy":
		return v.Name, a.EgressProxy != b.EgressProxy
	}
	if _, changed := s.now[v.Name]; !changed && v.Origin == originDefault && s.start.Default(v.Name) && v.Name != levelSetting {
		return v.Name, false
	}
	return v.Name, from != v.Value
}

// settingOf returns the name of a setting, or of the setting that names the file with its value.
func settingOf(v *Value, file string) string {
	if v.Origin == originDefault {
		return file
	}
	return v.Name
}

// Reload reads the settings again while the node runs, see settled.reload.
func (n *Node) Reload(load func() (*Config, error)) { n.settled.reload(load) }

// apply puts a changed setting into force, if that needs no restart.
func (n *Node) apply(name string, to *Config) bool {
	switch {
	case name == levelSetting:
		return true // settled does it
	case name == "tls_cert", name == "tls_key":
		return n.cfg.TLSCert != "" && to.TLSCert != "" // settled.read has taken the pair
	case name == "pass_env":
		return n.worker.PassEnv(to.PassEnv)
	case strings.HasPrefix(name, "retention_"):
		n.newer.Store(to)
		select {
		case n.rekept <- struct{}{}:
		default:
		}
		return true
	}
	return false
}

// keeping returns the settings of retention that hold now.
func (n *Node) keeping() *Config {
	if c := n.newer.Load(); c != nil {
		return c
	}
	return n.cfg
}

// retention is the retention of runs whose workflow has none.
func (c *Config) retention() workflow.Retention {
	return workflow.Retention{Age: workflow.Duration(c.RetentionAge), Runs: int64(c.RetentionRuns)}
}
