package config

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/provider"
	"skein.dev/skein/internal/worker"
	"skein.dev/skein/sdk/shared/local"
)

// IsolationAuto is the value of the setting isolation that leaves the level to the database: see
// store.Info.Isolation.
const IsolationAuto = "auto"

// setIsolation reads the levels of isolation that this process offers. The weakest is that of tasks that
// require none.
func setIsolation(c *Config, v string) error {
	c.Isolation, c.IsolationLevels = "", nil
	if c.IsolationAuto = v == IsolationAuto; c.IsolationAuto {
		c.Isolation, c.IsolationLevels = worker.IsolationNone, []string{worker.IsolationNone}
		if worker.Offers(worker.IsolationFence, "", c.TaskUIDs) == nil {
			c.IsolationLevels = append(c.IsolationLevels, worker.IsolationFence)
		}
		return nil
	}
	for _, level := range worker.Levels {
		if slices.Contains(commaList(v), level) {
			c.IsolationLevels = append(c.IsolationLevels, level)
		}
	}
	if len(c.IsolationLevels) == 0 || len(commaList(v)) > len(c.IsolationLevels) {
		return fmt.Errorf("%q: use auto, %s, or several of these levels as A,B", v, strings.Join(worker.Levels, ", "))
	}
	c.Isolation = c.IsolationLevels[0]
	return nil
}

// DefaultLevel returns the level of isolation of tasks that require none, on workers that leave it to the
// database. ofDatabase is store.Info.Isolation. If this process would run tasks without that level,
// DefaultLevel warns.
func (c *Config) DefaultLevel(ofDatabase string, log *slog.Logger) string {
	if c.IsolationAuto && ofDatabase != "" && len(c.IsolationLevels) == 1 && c.Slots > 0 {
		_, err := worker.Fences()
		log.Warn("tasks are not isolated, because this machine cannot isolate them; they may do what the user of this process may",
			"code", "isolation_missing", "reason", err)
	}
	return ofDatabase
}

// Networks of a box: the network of the machine, or only a loopback interface of its own.
const (
	BoxNetworkHost = "host"
	BoxNetworkNone = "none"
)

func setBoxNetwork(c *Config, v string) error {
	c.BoxNetwork = v
	return oneOf(v, BoxNetworkHost, BoxNetworkNone)
}

func setTaskUIDs(c *Config, v string) (err error) {
	c.TaskUIDs, err = worker.ParseUIDs(v)
	return err
}

// setTaskUsers reads the users that namespaces may choose for their tasks. Whether the machine has them is
// checked when a node or worker starts.
func setTaskUsers(c *Config, v string) error {
	c.TaskUsers = commaList(v)
	return notMany(len(c.TaskUsers), "task_users")
}

// Protected returns the absolute paths that no isolated task may reach, in addition to the data folder:
// settings, keys, tokens, the database, the artifacts of other tasks, and the programs of extensions.
func (c *Config) Protected() (paths []string) {
	add := func(path string) {
		if at, err := filepath.Abs(path); path != "" && err == nil {
			paths = append(paths, at)
		}
	}
	add(c.TLSKey)
	add(c.TokenFile)
	add(c.SecretKeyFile)
	for _, file := range c.SecretProviders.Files() {
		add(file)
	}
	add(c.Audit.KeyFile)
	add(c.Audit.Checkpoints)
	for i := range c.Auth.OIDC {
		add(c.Auth.OIDC[i].ClientSecretFile)
	}
	if l := c.Auth.LDAP; l != nil {
		add(l.BindPasswordFile)
	}
	add(c.Traces.HeadersFile)
	add(c.Registry.PasswordFile)
	add(c.Registry.Key)
	add(c.Logs)
	add(c.Artifacts)
	for _, folder := range c.Extensions {
		add(folder) // a task of a kind can reach only the folder of its own extension
	}
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
		add(filepath.Dir(nodes)) // also holds the sessions of the command line
	}
	return paths
}

// Unwatched returns the absolute paths that no trigger may watch. They are the same paths that no isolated
// task may reach.
func (c *Config) Unwatched() []string {
	paths := append(c.Protected(), "/etc/skein")
	if data, err := filepath.Abs(c.Data); c.Data != "" && err == nil {
		paths = append(paths, data)
	}
	return paths
}

// secretKeySetting names the file with the keys of the secrets.
func secretKeySetting() setting {
	return setting{name: "secret_key_file", def: text(""), credential: "secret-key",
		set: func(c *Config, v string) error { return setPath(&c.SecretKeyFile, v) }}
}

// providerSetting lists the providers of secrets. Their own secrets are in files, so the value contains none.
func providerSetting() setting {
	return setting{name: "secret_providers", def: text(""), set: func(c *Config, v string) (err error) {
		c.SecretProviders, err = provider.Parse(v, access.CheckNamespace)
		return err
	}}
}

// SecretKey returns the path of the file with the key that seals secrets. It returns "" if there is none.
// made reports whether this node makes the key.
func (c *Config) SecretKey() (file string, made bool) {
	if c.SecretKeyFile == "" && c.Postgres == "" {
		return filepath.Join(c.Data, "access", "secret.key"), true
	}
	return c.SecretKeyFile, false
}

// PastFile returns the path of the file in which a node records the progress of its database.
func (c *Config) PastFile() string { return filepath.Join(c.Data, "past.json") }

// certificateLifeMin and certificateLifeMax bound the lifetime of a certificate of the internal authority.
const (
	certificateLifeMin = 10 * time.Second
	certificateLifeMax = 30 * 24 * time.Hour
)

// certificateSetting returns the setting of the lifetime of certificates of the internal authority.
func certificateSetting() setting {
	return setting{name: "certificate_life", def: text("24h"), set: setCertificateLife}
}

// nodesSetting returns the setting that makes a node accept other nodes only by certificates of the internal
// authority.
func nodesSetting() setting {
	return setting{name: "node_certificates_only", def: text("false"), set: func(c *Config, v string) error {
		c.NodesCertified = v == "true"
		return oneOf(v, "true", "false")
	}}
}

func setCertificateLife(c *Config, v string) error {
	err := setSpan(&c.CertificateLife, v)
	if err == nil && (c.CertificateLife < certificateLifeMin || c.CertificateLife > certificateLifeMax) {
		err = fmt.Errorf("use %v to 30d", certificateLifeMin)
	}
	return err
}
