package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/identity"
	"skein.dev/skein/internal/kind/container"
	"skein.dev/skein/internal/provider"
	"skein.dev/skein/internal/registry"
	"skein.dev/skein/internal/retention"
	"skein.dev/skein/internal/trace"
	"skein.dev/skein/internal/worker"
	"skein.dev/skein/internal/workflow"
)

// Config is the settings of a process. [Load] fills it.
type Config struct {
	Data     string   // data folder, absolute
	DB       string   // path of the SQLite file; "" means <data>/skein.db
	Postgres string   // URL of the database of a cluster; "" means SQLite
	Listen   string   // host:port; with the default, the node uses the next free port
	Server   []string // URLs of servers; empty means the server over the data folder
	Name     string   // stable name of this node
	Slots    int      // attempts that run at once
	PassEnv  []string // names of further environment variables that tasks get from this process
	// Extensions are the folders of extensions. If it is nil, they are those of ExtensionFolders. If it is
	// empty, there are none.
	Extensions []string
	Isolation  string // weakest level of isolation of tasks, one of worker.Levels
	// IsolationLevels are all levels of isolation that this process offers, with Isolation first.
	IsolationLevels []string
	// IsolationAuto means that the database determines the level of tasks that require no level.
	IsolationAuto bool
	TaskUIDs      worker.UIDRange   // the user IDs of tasks, from the level user on
	TaskUsers     []string          // users of the machine that namespaces may choose for their tasks
	BoxNetwork    string            // network of tasks at the level box: host | none
	Lease         time.Duration     // how long attempts may run after the last renewal
	Drain         time.Duration     // how long a shutdown waits for running attempts
	LogLevel      string            // debug | info | warn | error; a node can change it later
	LogFormat     string            // text | json
	APIToken      string            // the token that this process sends to servers
	TokenFile     string            // the file from which APIToken was read; "" if a setting holds the token
	Room          dag.Need          // cpu and memory that this process has for tasks
	Groups        []string          // the groups of workers to which this process belongs
	Labels        map[string]string // the labels that tasks may require
	Dispatch      string            // the rule by which one of several workers is chosen
	// Containers has the settings of tasks in containers.
	Containers container.Settings
	// Environments bounds the bytes that the Python environments of a namespace take on this machine.
	Environments int64
	// SourceMemory is the number of bytes that the process of a source of events may take.
	SourceMemory int64
	// WorkersMax is the number of workers that this node accepts in the cluster. WorkerSlotsMax is the number
	// of slots that it accepts of each worker.
	WorkersMax, WorkerSlotsMax int
	NoWorker                   bool   // the node runs no task itself
	TasksMax                   int    // bound on the tasks of one workflow
	NoUI                       bool   // the node serves no web page
	BasePath                   string // the path under which browsers reach the server; "" means the root
	// Logs is a folder that the nodes share, for the complete output of tasks. If it is "", the database of a
	// cluster stores the end of each log, and each node stores its own files. LogObjects is a store of
	// objects that also gets the complete output. It is nil if there is none.
	Logs       string
	LogObjects *blob.Location
	// Artifacts is a folder that the nodes share, for the artifacts of tasks. If it is "", each node stores
	// the artifacts of the attempts that it ran. ArtifactObjects is a store of objects that is used instead
	// of a folder. It is nil if there is none.
	Artifacts       string
	ArtifactObjects *blob.Location

	// TLSCert and TLSKey are paths of PEM files. A node that other machines can reach requires them, unless
	// Plaintext is set. CACert is the path of an authority that this process trusts in addition to the
	// system's.
	TLSCert, TLSKey, CACert string
	// CertificateLife is the time for which a certificate of the internal authority is valid.
	CertificateLife time.Duration
	// NodesCertified makes this node accept other nodes only by their certificates.
	NodesCertified bool
	Plaintext      bool
	// LoopbackOpen makes this node accept callers on loopback without a token.
	LoopbackOpen bool
	// Auth are the identity providers. PublicURL is the address by which browsers reach the server, without
	// the base path. "" means the address in the request, if that is an address of this machine.
	Auth      identity.Settings
	PublicURL string
	// Connections bounds the connections of one address that have shown no valid credential.
	Connections int
	Rates       auth.Rates // calls a second of one caller

	// Egress says which addresses the requests of tasks may reach. For "", see EgressPolicy. EgressProxy is
	// the proxy of these requests, or "" for no proxy.
	Egress, EgressProxy string
	// HealthListen is the address at which a worker answers /livez, /readyz and /metrics; "" if there is none.
	HealthListen string

	// Settings of a node of a cluster: the address that other nodes use ("" means the one at which the node
	// listens), the interval at which the node renews its row, the silence after which the node is declared dead,
	// and its reaction to this.
	Advertise  string
	Heartbeat  time.Duration
	Lag        time.Duration
	ExitOnLoss bool
	// Registry is a service that also knows which nodes are alive. If it has no kind, no registry is used.
	Registry registry.Settings
	// StopWithoutRegistry makes a node end when its registry has not answered for Lag.
	StopWithoutRegistry bool
	// Balance is the time between two decisions about shards that move because of their load. If it is 0, no
	// shard moves.
	Balance time.Duration

	// RetentionAge and RetentionRuns bound the finished runs of workflows without a retention of their own. Runs
	// are kept if they finished within the last RetentionAge (0 means at any time) and are among the newest
	// RetentionRuns.
	RetentionAge  time.Duration
	RetentionRuns int
	Bounds        retention.Bounds // the bounds of all other records

	// ListenChosen is true if Listen was set explicitly, so that the node uses no other port.
	ListenChosen bool
	// Hold makes this process start no task. The next process over the data folder runs the accepted work.
	Hold bool
	// ByHand is set in a command that is no server. Such a command starts no run by itself: due schedules,
	// triggers on the scheduler's start and arriving files wait for the next server.
	ByHand bool
	// Recovery makes this node ensure that a sweep checks all runs every minute.
	Recovery  bool
	Unclaimed time.Duration  // the longest time from an assignment to the report that the attempt runs
	level     *slog.LevelVar // the level of the log; nil until the log is made
	// Values has every setting in the order of the table, for `skein config view`.
	Values []Value

	// AlertCommands permits channels of kind command to run programs on this node.
	AlertCommands bool
	// Watchdog is the file with the address that is called while the scheduler works. If it is "", no address
	// is called.
	Watchdog string
	// SMTP is the server that sends mail, and SMTPFrom the sender of that mail.
	SMTP, SMTPFrom string
	// Traces selects the collector that gets ended runs as traces.
	Traces trace.Settings
	// SecretKeyFile is the file with the keys of secrets. If it is "", a node on SQLite makes a file, and a
	// node on PostgreSQL has none.
	SecretKeyFile string
	// SecretProviders are the providers of secrets that are not sealed in the database.
	SecretProviders provider.Settings
	Audit           Audit
}

// Value is one setting as text, with its origin.
type Value struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // flag --x | environment SKEIN_X | file PATH | credential X | default
}

// setting is one row of the table of settings.
type setting struct {
	name  string // the name in the config file; a flag has - for _, and a variable has SKEIN_ and capitals
	def   func() string
	set   func(c *Config, text string) error
	shown func(text string) string // returns the part of the value that may be shown; nil means the whole value
	// credential is the name of the service credential whose file is the default. replaces is the setting
	// whose value is in that file.
	credential, replaces string
}

// Env is the name of the setting's environment variable.
func (s *setting) env() string { return "SKEIN_" + strings.ToUpper(s.name) }

// Flag is the name of the setting's flag.
func (s *setting) flag() string { return strings.ReplaceAll(s.name, "_", "-") }

// ListenDefault is the address of a node without a setting.
const ListenDefault = "127.0.0.1:8080"

const slotsPerCore = 2

func text(s string) func() string { return func() string { return s } }

func count(n int) func() string { return text(strconv.Itoa(n)) }

// settings returns the table of all settings, with their defaults and the meaning of their values.
func settings() []setting {
	return append([]setting{
		{name: "data", def: dataDefault, set: setData},
		{name: "db", def: text(""), set: setDB, shown: shownDB},
		{name: "db_file", def: text(""), set: setDBFile, credential: "db", replaces: "db"},
		{name: "listen", def: text(ListenDefault), set: func(c *Config, v string) error {
			c.Listen = v
			_, _, err := splitAddress(v)
			return err
		}},
		{name: "server", def: text(""), set: func(c *Config, v string) error { c.Server = commaList(v); return nil }},
		{name: "name", def: nameDefault, set: setName},
		{name: "slots", def: func() string { return strconv.Itoa(slotsPerCore * runtime.NumCPU()) }, set: setSlots},
		{name: "cpu", def: func() string { return dag.Cores(worker.Cores()) }, set: setCPU},
		{name: "memory", def: func() string { return strconv.FormatInt(worker.Memory(), 10) }, set: setMemory},
		{name: "pass_env", def: text(""), set: setPassEnv},
		{name: "extensions", def: text(""), set: setExtensions},
		{name: "isolation", def: text(IsolationAuto), set: setIsolation},
		{name: "box_network", def: text(BoxNetworkHost), set: setBoxNetwork}, {name: "task_uids", def: text(worker.UIDsDefault), set: setTaskUIDs}, {name: "task_users", def: text(""), set: setTaskUsers},
		{name: "advertise", def: text(""), set: func(c *Config, v string) error { return setAdvertise(c, v) }},
		{name: "heartbeat", def: text("5s"), set: func(c *Config, v string) (err error) { return setSpan(&c.Heartbeat, v) }},
		{name: "lag", def: text("20s"), set: func(c *Config, v string) (err error) { return setSpan(&c.Lag, v) }},
		balanceSetting(), {name: "recovery", def: text("on"), set: setRecovery},
		{name: "unclaimed", def: text("5m"), set: func(c *Config, v string) (err error) { return setSpan(&c.Unclaimed, v) }},
		{name: "on_lease_loss", def: text("rejoin"), set: func(c *Config, v string) error {
			c.ExitOnLoss = v == "exit"
			return oneOf(v, "rejoin", "exit")
		}},
		{name: "lease", def: func() string { return worker.LeaseDefault.String() }, set: func(c *Config, v string) error { return setLease(c, v) }},
		{name: "drain", def: text("1m"), set: func(c *Config, v string) error {
			d, err := workflow.ParseDuration(v)
			c.Drain = time.Duration(d)
			return err
		}},
		{name: "log_level", def: text("info"), set: func(c *Config, v string) error {
			c.LogLevel = v
			return oneOf(v, "debug", "info", "warn", "error")
		}},
		{name: "log_format", def: text("text"), set: func(c *Config, v string) error {
			c.LogFormat = v
			return oneOf(v, "text", "json")
		}},
		{name: "roles", def: text("api,scheduler,worker"), set: setRoles},
		{name: "group", def: text(""), set: setGroups},
		{name: "label", def: text(""), set: setLabels},
		{name: "dispatch", def: text(home.LeastLoaded), set: func(c *Config, v string) error {
			c.Dispatch = v
			return oneOf(v, home.LeastLoaded, home.RoundRobin, home.Random)
		}},
		{name: "workers_max", def: count(home.WorkersDefault), set: func(c *Config, v string) error { return setCount(&c.WorkersMax, v, workersMost) }},
		{name: "worker_slots_max", def: count(slotsMax), set: func(c *Config, v string) error { return setCount(&c.WorkerSlotsMax, v, slotsMax) }},
		{name: "tasks_max", def: func() string { return strconv.Itoa(dag.TasksMax) }, set: setTasksMax},
		{name: "no_ui", def: text("false"), set: func(c *Config, v string) error {
			c.NoUI = v == "true"
			return oneOf(v, "true", "false")
		}},
		{name: "base_path", def: text(""), set: setBasePath},
		{name: "tls_cert", def: text(""), set: func(c *Config, v string) error { return setPath(&c.TLSCert, v) }},
		{name: "tls_key", def: text(""), set: func(c *Config, v string) error { return setPath(&c.TLSKey, v) }},
		{name: "ca_cert", def: text(""), set: func(c *Config, v string) error { return setPath(&c.CACert, v) }},
		{name: "insecure_plaintext", def: text("false"), set: setPlaintext},
		{name: "connections_per_address", def: func() string { return strconv.Itoa(auth.ConnectionsDefault) }, set: func(c *Config, v string) error {
			return setCount(&c.Connections, v, connectionsMax)
		}},
		{name: "retention_age", def: text("90d"), set: setRetentionAge},
		{name: "retention_runs", def: text("1000"), set: setRetentionRuns},
		{name: "api_token", def: text(""), shown: func(string) string { return "********" }, set: func(c *Config, v string) error { c.APIToken = v; return nil }},
		{name: "token_file", def: text(""), set: setTokenFile, credential: "token", replaces: "api_token"},
	}, append(append(append(append(append(append(storeSettings(), registrySettings()...), egressSettings()...), containerSettings()...), rateSettings()...), append(healthSettings(), loopbackSetting(), secretKeySetting(), certificateSetting(), nodesSetting(), providerSetting())...), append(append(append(append(identitySettings(), auditSettings()...), alertSettings()...), traceSettings()...), boundSettings()...)...)...)
}

func setRetentionAge(c *Config, v string) error {
	d, err := workflow.ParseDuration(v)
	c.RetentionAge = time.Duration(d)
	return err
}

func setData(c *Config, v string) (err error) {
	if v == "" { // if a shell variable is unset, the value is empty, which must not mean the current folder
		return errors.New("the path of a folder is missing")
	}
	c.Data, err = filepath.Abs(v)
	return err
}

func setPath(to *string, v string) (err error) {
	if *to = ""; v != "" {
		*to, err = filepath.Abs(v)
	}
	return err
}

func setSpan(to *time.Duration, v string) error {
	d, err := workflow.ParseDuration(v)
	if err == nil && d <= 0 {
		err = errors.New("it must be longer than 0")
	}
	*to = time.Duration(d)
	return err
}

// leaseMin is the shortest lease. It keeps a busy machine from ending attempts.
const leaseMin = time.Second

func setLease(c *Config, v string) error {
	err := setSpan(&c.Lease, v)
	if err == nil && c.Lease < leaseMin {
		err = fmt.Errorf("it must be at least %v", leaseMin)
	}
	return err
}

func setAdvertise(c *Config, v string) error {
	if v == "" {
		return nil
	}
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q is not a URL such as http://node-1:8080", v)
	}
	c.Advertise = strings.TrimSuffix(v, "/")
	return nil
}

func oneOf(v string, allowed ...string) error {
	if !slices.Contains(allowed, v) {
		return fmt.Errorf("%q is not one of %s", v, strings.Join(allowed, ", "))
	}
	return nil
}

// commaList splits "a,b" and drops empty parts.
func commaList(v string) []string {
	var all []string
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// setRoles sets the roles of a process. Every server has the first two roles, because a node of the cluster
// may receive any request, and may have to take over shards.
func setRoles(c *Config, v string) error {
	roles := commaList(v)
	for _, r := range roles {
		if err := oneOf(r, "api", "scheduler", "worker"); err != nil {
			return err
		}
	}
	if !slices.Contains(roles, "api") || !slices.Contains(roles, "scheduler") {
		return errors.New("a server has the roles api,scheduler or api,scheduler,worker; a process that only runs tasks is `skein worker`")
	}
	c.NoWorker = !slices.Contains(roles, "worker")
	return nil
}

// Roles returns the roles of a server.
func (c *Config) Roles() []string {
	if c.NoWorker {
		return []string{"api", "scheduler"}
	}
	return []string{"api", "scheduler", "worker"}
}

// nameMax is the greatest length of a node's name, in bytes.
const nameMax = 100

func setName(c *Config, v string) error {
	odd := func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`/\?#%"'<>`, r) } // a name is a part of addresses
	if v == "" || v == "." || v == ".." || len(v) > nameMax || strings.ContainsFunc(v, odd) {
		return fmt.Errorf("%q is not a name: 1 to %d letters, digits and the like; no spaces, quotes or slashes", v, nameMax)
	}
	c.Name = v
	return nil
}

// slotsMax keeps a mistyped number from using all file descriptors: an attempt needs about four.
const slotsMax = 10_000

func setSlots(c *Config, v string) error { return setCount(&c.Slots, v, slotsMax) }

// workersMost bounds the setting for the number of workers.
const workersMost = 1_000_000

// setCount reads a number from 1 to most.
func setCount(to *int, v string, most int) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > most {
		return fmt.Errorf("%q is not a number from 1 to %d", v, most)
	}
	*to = n
	return nil
}

func setPlaintext(c *Config, v string) error {
	c.Plaintext = v == "true"
	return oneOf(v, "true", "false")
}

// connectionsMax is the largest value of the setting, so that a mistyped number does not remove the bound.
const connectionsMax = 100_000

func setRecovery(c *Config, v string) error {
	c.Recovery = v == "on"
	return oneOf(v, "on", "off")
}

func setCPU(c *Config, v string) error {
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || n < 0.001 || n > 10_000 {
		return fmt.Errorf("%q is not a number of cores, from 0.001 to 10000", v)
	}
	c.Room.CPU = int64(n * 1000)
	return nil
}

func setMemory(c *Config, v string) error {
	n, err := workflow.ParseSize(v)
	c.Room.Memory = n
	return err
}

// tasksMaxMax is the greatest allowed bound, because the packed forms cannot have a greater task number.
const tasksMaxMax = 1 << 24

func setTasksMax(c *Config, v string) error { return setCount(&c.TasksMax, v, tasksMaxMax) }

// retentionRunsMax is the greatest number of runs to keep. In practice it means all.
const retentionRunsMax = 1_000_000_000

func setRetentionRuns(c *Config, v string) error {
	return setCount(&c.RetentionRuns, v, retentionRunsMax)
}

func setPassEnv(c *Config, v string) error {
	c.PassEnv = commaList(v)
	for _, name := range c.PassEnv {
		if strings.ContainsAny(name, "= ") {
			return fmt.Errorf("%q is not the name of a variable", name)
		}
		if strings.HasPrefix(name, "SKEIN_") {
			return fmt.Errorf("%s cannot be passed to tasks: names that begin with SKEIN_ are reserved", name)
		}
	}
	return nil
}

func dataDefault() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "skein")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "skein-data" // without a home folder, the current folder is used
	}
	return filepath.Join(home, ".local", "share", "skein")
}

func nameDefault() string {
	if name, err := os.Hostname(); err == nil && name != "" {
		return name
	}
	return "node"
}
