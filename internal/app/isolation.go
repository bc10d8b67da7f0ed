package app

import (
	"os"
	"path/filepath"
	"strings"

	"skein.dev/skein/internal/local"
	"skein.dev/skein/internal/worker"
)

func setIsolation(c *Config, v string) error {
	c.Isolation = v
	return oneOf(v, worker.IsolationNone, worker.IsolationFence)
}

// protected returns the absolute paths that no isolated task may reach, in addition to the data folder:
// settings, keys, tokens, the database, and the artifacts of other tasks.
func (c *Config) protected() (paths []string) {
	add := func(path string) {
		if at, err := filepath.Abs(path); path != "" && err == nil {
			paths = append(paths, at)
		}
	}
	add(c.TLSKey)
	add(c.TokenFile)
	add(c.SecretKeyFile)
	add(c.Audit.KeyFile)
	add(c.Audit.Checkpoints)
	for i := range c.Auth.OIDC {
		add(c.Auth.OIDC[i].ClientSecretFile)
	}
	if l := c.Auth.LDAP; l != nil {
		add(l.BindPasswordFile)
	}
	add(c.Logs)
	add(c.Artifacts)
	if c.DB != "" {
		for _, end := range [...]string{"", "-wal", "-shm"} {
			add(c.DB + end)
		}
	}
	for _, v := range c.Values {
		if file, ok := strings.CutPrefix(v.Origin, originFile); ok {
			add(file)
		}
		if v.Name == "db_file" {
			add(v.Value)
		}
	}
	add(os.Getenv("CREDENTIALS_DIRECTORY"))
	if nodes := local.Folder(); nodes != "" {
		add(filepath.Dir(nodes)) // also where sessions of the command line are
	}
	return paths
}

// unwatched returns the absolute paths that no trigger may watch: those that no isolated task may reach.
func (c *Config) unwatched() []string {
	paths := append(c.protected(), "/etc/skein")
	if data, err := filepath.Abs(c.Data); c.Data != "" && err == nil {
		paths = append(paths, data)
	}
	return paths
}

// checkIsolation says which level of isolation tasks have on this machine.
func checkIsolation(cfg *Config) Check {
	c := Check{Name: "isolation", State: CheckGood}
	has, err := worker.Fences()
	switch {
	case cfg.Isolation == worker.IsolationFence && err != nil:
		c.State, c.Found = CheckBad, "the setting isolation is fence, and "+err.Error()
		c.Remedy = "run the node on another kernel, or set isolation to none"
	case cfg.Isolation == worker.IsolationFence:
		c.Found = "fence, by " + has
	case err != nil:
		c.Found = "none: a task may do what the user of the node may; " + err.Error()
	default:
		c.Found = "none: a task may do what the user of the node may; this machine can isolate tasks by " + has + ": set isolation to fence"
	}
	return c
}
