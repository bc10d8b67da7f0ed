package config

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Rules define how a process applies settings that change while it runs.
type Rules struct {
	// Read reads the files that new settings name, before the settings are applied. It is nil if there are no
	// such files.
	Read func(to *Config) error
	// Apply applies a setting other than the level of the log. It returns false if the setting requires a
	// restart.
	Apply func(name string, to *Config) bool
	// Ignored are settings whose values this process reads again by itself.
	Ignored []string
}

// Live holds the settings of a running process: those of its start and their later changes.
type Live struct {
	log   *slog.Logger
	rules Rules

	reading sync.Mutex // held while the settings are read again

	mu    sync.Mutex // protects following fields
	start *Config
	now   map[string]string // values of settings that changed since the start
}

// NewLive returns the settings of a process that starts with cfg.
func NewLive(cfg *Config, log *slog.Logger, rules Rules) *Live {
	cfg.levels()
	return &Live{log: log, rules: rules, start: cfg, now: map[string]string{}}
}

// value returns the present value of a setting. The caller holds the lock.
func (s *Live) value(name string) string {
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
func (s *Live) Level() string { return strings.ToLower(s.start.levels().Level().String()) }

// SetLevel implements server.LogLevel.
func (s *Live) SetLevel(level, by string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from := s.Level(); from != level {
		s.changed(levelSetting, from, level, by)
	}
}

const levelSetting = "log_level"

// changed logs a change of a setting. If the setting is the log level, changed also sets the level, before
// the line if the log becomes louder, and after it otherwise.
func (s *Live) changed(name, from, to, by string) {
	louder := name == levelSetting && levelOf(to) < levelOf(from)
	if louder {
		s.start.levels().Set(levelOf(to))
	}
	s.log.Info("a setting has changed", "code", "setting_changed", "setting", name, "from", from, "to", to, "by", by)
	if name == levelSetting && !louder {
		s.start.levels().Set(levelOf(to))
	}
}

// Reload reads the settings again, applies those that can change while the process runs, and logs the names
// of the others. If the settings cannot be read, it changes nothing. Reload returns before that work is done,
// because the disk of a config file may not answer and the caller handles signals.
func (s *Live) Reload(load func() (*Config, error)) {
	if !s.reading.TryLock() {
		s.log.Warn("the settings are still being read; send HUP again later", "code", "reload_under_way")
		return
	}
	go func() {
		defer s.reading.Unlock()
		to, err := load()
		if err == nil && s.rules.Read != nil {
			err = s.rules.Read(to)
		}
		if err != nil {
			s.log.Error("the settings could not be read again; the old ones stay in force; correct the settings, and send HUP again", "code", "reload_failed", "err", err)
			return
		}
		s.put(to)
	}()
}

// put applies the changed settings, and logs the names of those that require a restart.
func (s *Live) put(to *Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fixed, changed := []string(nil), false
	for _, v := range s.inOrder(to.Values) {
		from := s.value(v.Name)
		name, differs := s.differs(&v, from, to)
		if !differs || slices.Contains(s.rules.Ignored, v.Name) {
			continue
		}
		if name != levelSetting && !s.rules.Apply(name, to) {
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
		s.log.Warn("some settings were changed that need a restart; restart the process", "code", "settings_need_restart", "settings", strings.Join(fixed, ","))
	case !changed:
		s.log.Info("the settings were read again; none changed", "code", "settings_unchanged")
	}
}

// inOrder moves the level of the log to the beginning if the log becomes louder, and to the end if it becomes
// quieter. So each change has a line in the log.
func (s *Live) inOrder(values []Value) []Value {
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

// Follow calls reload for each value of loads, until stop is called.
func (s *Live) Follow(loads <-chan func() (*Config, error)) (stop func()) {
	over, wait := make(chan struct{}), sync.WaitGroup{}
	wait.Go(func() {
		for {
			select {
			case load := <-loads:
				s.Reload(load)
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

// differs compares a setting with its present value, and returns the name of the setting that the operator
// changed. A default may depend on the machine, so two defaults count as equal. A secret value is compared
// where it is used.
func (s *Live) differs(v *Value, from string, to *Config) (name string, differs bool) {
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

// settingOf returns the name of a setting. If a file has the value of the setting, it returns the name of the
// setting for the file.
func settingOf(v *Value, file string) string {
	if v.Origin == originDefault {
		return file
	}
	return v.Name
}
