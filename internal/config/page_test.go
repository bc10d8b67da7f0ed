package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/config.md")

// described is the text about a setting on the page of settings, in addition to the table of settings.
type described struct {
	// def is the default if it depends on the machine. If def is "", the table has the default.
	def     string
	meaning string
	// reread says that a change of the setting takes effect without a restart.
	reread bool
}

// descriptions are the meanings of all settings.
var descriptions = map[string]described{
	"data":                     {def: "`$XDG_DATA_HOME/skein`", meaning: "data folder"},
	"db":                       {def: "in the data folder", meaning: "database: `sqlite:PATH`, or `postgres://user@host:port/database?schema=NAME` (schema: `skein`)"},
	"db_file":                  {meaning: "file with the value of `db`, for an address with a password; others must not be able to read the file"},
	"listen":                   {def: "127.0.0.1:8080, else the next free port", meaning: "address of a node; a port that you choose is used or refused"},
	"server":                   {def: "the process that holds the data folder", meaning: "URL of a node, or several URLs with commas"},
	"name":                     {def: "the name of the host", meaning: "stable name of the node or worker; of two nodes with one name on one database the older one exits"},
	"slots":                    {def: "two per core", meaning: "attempts that run at once"},
	"cpu":                      {def: "what the process may use", meaning: "cores for tasks with `resources`"},
	"memory":                   {def: "what the process may use", meaning: "memory for tasks with `resources`"},
	"pass_env":                 {meaning: "further variables of the process that tasks get, with commas", reread: true},
	"extensions":               {def: "`extensions` in the data folder, and `/etc/skein/extensions`", meaning: "folders of [extensions](extensions.md), separated by colons; of two extensions with one name and version, the one in the first folder is used; or `none`"},
	"source_memory":            {meaning: "memory of the process of a [source](brokers.md#skein-plus) of a broker or of an extension; a process that takes more is ended, and started again after 30 s"},
	"container_engine":         {meaning: "engine for tasks with [`container`](containers.md): `auto` (podman, or Docker if podman is missing and this is root), `podman`, `docker`, `unix:///PATH` for the engine with Docker's API at a socket, or `none` (such tasks do not run here)"},
	"container_mounts":         {meaning: "folders of this machine that containers may mount, as `NAME=PATH,…`; `NAME=PATH:rw` if tasks may write there; `NAMESPACE/NAME=PATH` for one namespace only"},
	"isolation":                {meaning: "`none`, `fence`, `user` or `box`: what a task may reach, see [isolation](security.md#isolation). `auto` is `fence` on a database that this version or a later one has made, and `none` on an earlier one. With several levels, as `fence,box`, a task gets the first one unless it requires a higher one"},
	"python_environments":      {meaning: "room for the [environments of Python](kinds.md#programs-of-python) of one namespace on this machine; environments that were not used for the longest time are removed"},
	"box_network":              {meaning: "`host` or `none`: network of tasks at the level `box`"},
	"task_users":               {meaning: "users of the machine, with commas, as which namespaces may run their tasks at the levels from `user` on: `skein namespace set NS --run-as USER`"},
	"task_uids":                {meaning: "user IDs of tasks at the levels from `user` on, one for each namespace; no user of the machine may have them"},
	"advertise":                {def: "the address of `listen`", meaning: "URL by which the other nodes of the cluster reach the node"},
	"heartbeat":                {meaning: "time between two renewals of a node's row in a cluster"},
	"lag":                      {meaning: "silence after which the other nodes declare a node or worker dead; while workers are attached, lower it by at most a quarter at a restart"},
	"registry":                 {meaning: "etcd or ZooKeeper by which a cluster notices dead nodes sooner: `etcd://HOST:PORT,…/PATH` or `zookeeper://…`, with TLS `etcds://` or `zookeepers://`; options follow the path: `?ttl=4s`, `user=`, `ca=`, `cert=`, `key=`: see [registry](cluster.md#registry)"},
	"registry_password_file":   {meaning: "file with the password of the registry's user; others must not be able to read it; it is read at each sign-in"},
	"balance":                  {meaning: "time between two decisions about shards that [move because of their load](cluster.md#shards-move-by-load), or `off`; at least two heartbeats; the same on every node"},
	"recovery":                 {meaning: "`off`: the node starts no sweep of recovery"},
	"unclaimed":                {meaning: "time after which an assigned attempt that is not known to run is lost"},
	"registry_away":            {meaning: "`database` or `stop`: what a node does when its [registry](cluster.md#registry) has not answered for `lag`; `stop` ends the node as SIGTERM does"},
	"on_lease_loss":            {meaning: "`rejoin` or `exit`: what a node does when the other nodes declared it dead"},
	"lease":                    {meaning: "time for which running tasks outlive a server that is gone, frozen or cut off; in a cluster at least three heartbeats, and at most ¾ of `lag`"},
	"drain":                    {meaning: "time for which a shutdown waits for running attempts"},
	"log_level":                {meaning: "`debug`, `info`, `warn` or `error`", reread: true},
	"log_format":               {meaning: "`text` or `json`"},
	"roles":                    {meaning: "`api,scheduler`, or with `worker`: without it the node runs no task itself"},
	"group":                    {meaning: "groups that the worker belongs to, with commas"},
	"label":                    {meaning: "labels of the worker, as `NAME=VALUE,…`"},
	"dispatch":                 {meaning: "choice between several free workers: `least-loaded`, `round-robin` or `random`"},
	"workers_max":              {meaning: "workers that a cluster may list"},
	"worker_slots_max":         {meaning: "slots that one worker may have"},
	"tasks_max":                {meaning: "tasks of one workflow"},
	"no_ui":                    {meaning: "`true`: serve no web page"},
	"base_path":                {meaning: "path under which browsers reach the server, such as `/skein` behind a proxy; the proxy may strip it or not"},
	"tls_cert":                 {meaning: "PEM file with the certificate of the node; a new file is used without a restart", reread: true},
	"tls_key":                  {meaning: "PEM file with the key of the certificate; a new file is used without a restart", reread: true},
	"node_certificates_only":   {meaning: "`true`: other nodes are accepted by certificates of the internal authority only, and not by tokens; every node needs TLS and the key of the secrets"},
	"certificate_life":         {meaning: "time for which a certificate of the internal authority is valid, from 10s to 30d; workers and nodes renew theirs after two thirds of it"},
	"ca_cert":                  {meaning: "PEM file with a further authority for certificates of other nodes"},
	"insecure_plaintext":       {meaning: "`true`: send and take tokens without TLS; everything can be read on the way"},
	"connections_per_address":  {meaning: "connections of one address that have shown no valid credential"},
	"session_rate":             {meaning: "calls a second of one person in browsers, all sessions together, four times as many at once; beyond that 429; 0: any number"},
	"session_streams":          {meaning: "streams that one person in browsers may have open at a node: event streams and followed logs; beyond that 429; 0: any number"},
	"token_streams":            {meaning: "streams that one user or service may have open at a node with tokens of the kind `api`; 0: any number"},
	"token_rate":               {meaning: "calls a second of one user or service with tokens of the kind `api`; 0: any number"},
	"loopback":                 {meaning: "`token`: a node on loopback answers only callers that show a token, which programs of its user find by themselves; `open`: it takes every user of the machine for its own, and warns at each start; the next version has no `open`"},
	"auth":                     {meaning: "identity providers, and the directory, by which people sign in: see [sign-in by a company's accounts](sign-in.md); in the file a map, else JSON"},
	"public_url":               {def: "on loopback, the address that the browser uses", meaning: "URL by which browsers reach the server, without `base_path`; an identity provider sends people back there"},
	"logs":                     {meaning: "folder that the nodes share for all that tasks print, or `s3://BUCKET/PREFIX`, see [logs](artifacts.md#logs); without it the database of a cluster has the last MiB of each log"},
	"artifacts":                {meaning: "folder that the nodes share for artifacts, or `s3://BUCKET/PREFIX`, see [artifacts](artifacts.md); without it each node keeps those of its own attempts and workers"},
	"retention_age":            {meaning: "age up to which finished runs are kept, unless their workflow sets an age; 0: no limit", reread: true},
	"retention_runs":           {meaning: "number of finished runs of a workflow that are kept, unless the workflow sets a number", reread: true},
	"api_token":                {meaning: "token that is sent to nodes; use `token_file`"},
	"alert_commands":           {meaning: "`true`: channels of kind `command` may run programs on this node, as its user; `false`: their messages wait for a node that permits it, and expire after a day"},
	"watchdog_file":            {meaning: "file with an address that the owner of shard 0 calls each minute while the scheduler works: see [watchdog](cluster-alerts.md#watchdog); the file is read at each call"},
	"smtp_url":                 {meaning: "server that sends the mail of alerts: `smtp+starttls://USER@HOST:587`, `smtps://USER@HOST`, or `smtp://HOST` without encryption; the password is the secret `smtp` of the channel's namespace"},
	"smtp_from":                {meaning: "sender of the mail of alerts, such as `Skein <skein@example.org>`"},
	"traces":                   {meaning: "collector of [traces](traces.md), such as `http://collector:4318`: ended runs are exported to it as OTLP; without a path, to `/v1/traces`"},
	"traces_headers_file":      {meaning: "file with headers for the collector, such as `Authorization: Bearer TOKEN`, one a line; others must not be able to read it; it is read at each call"},
	"traces_protocol":          {meaning: "how spans are sent: `http/json`, `http/protobuf` or `grpc`"},
	"traces_mode":              {meaning: "`run`: one trace for each run; `linked`: a trace for each attempt, with a link to its run"},
	"traces_sample":            {meaning: "part of the runs that is exported, from 0 to 1; for a run with a caller's trace context, the flag of the caller decides"},
	"secret_key_file":          {def: "on SQLite `DATA/access/secret.key`, made by the first `skein secret set`", meaning: "file with the key that secrets are sealed with, the same on every node of a cluster: 32 bytes in base64, a line; others must not be able to read it; it is read at each use"},
	"secret_providers":         {meaning: "files, variables, programs and Vault that give [secrets](secrets.md#secrets-that-are-kept-elsewhere), in the order in which they are asked; in the file a list, else JSON"},
	"token_file":               {meaning: "file with the token that is sent to nodes; others must not be able to read it; it is read again when a node refuses the token"},
	"egress":                   {def: "`any` on loopback, else `public`", meaning: "addresses that http tasks may call: `any`, `public`, networks, or several with commas; default of a worker: the setting of its home node"},
	"egress_proxy":             {meaning: "proxy of http tasks, and of git sources with https or http: a URL, or `environment` for `HTTP_PROXY` and `HTTPS_PROXY`"},
	"health_listen":            {meaning: "address at which a worker answers `/livez`, `/readyz` and `/metrics`: `:9090` listens on loopback only, `0.0.0.0:9090` on all addresses"},
	"retention_calls_age":      {meaning: "time for which a signed call of a webhook is remembered, so that it fires once", reread: true},
	"retention_events_age":     {meaning: "time for which an event of the events API is kept. During this time, triggers can read it, and a repeated event is not taken again", reread: true},
	"retention_events":         {meaning: "number of kept events, in all", reread: true},
	"retention_calls":          {meaning: "number of remembered calls of webhooks, in all; beyond it, the secret with the most calls loses its oldest", reread: true},
	"retention_keys_age":       {meaning: "time for which an idempotency key protects its run, and for which answers to other requests are kept", reread: true},
	"retention_keys":           {meaning: "number of the newest runs of a workflow that idempotency keys protect, and of the answers that are kept over all workflows", reread: true},
	"retention_fires_age":      {meaning: "age of ledger lines of runs that were started in time", reread: true},
	"retention_exceptions_age": {meaning: "age of all other ledger lines", reread: true},
	"retention_fires":          {meaning: "ledger lines of a workflow", reread: true},
	"retention_tally_age":      {meaning: "age of the counts and durations of ended runs, by day", reread: true},
	"retention_days_age":       {meaning: "age of counts by trigger and day of deleted ledger lines", reread: true},
	"retention_backfills_age":  {meaning: "age of ended backfills, with their instants", reread: true},
	"retention_backfills":      {meaning: "ended backfills of a workflow", reread: true},
	"retention_versions":       {meaning: "number of the newest versions of a workflow that are kept; an older version stays as long as a run uses it or a version before it", reread: true},
	"retention_records_age":    {meaning: "age of revoked and expired tokens, orders to nodes that are gone, and former processes", reread: true},
	"retention_audit":          {meaning: "age up to which rows of the audit log are kept; 0: no limit", reread: true},
	"audit_key_file":           {def: "`DATA/audit/key`, made at the first start", meaning: "file with the key that signs checkpoints of the audit log; the public key is in the file of the same name with `.pub`"},
	"audit_reads":              {def: "–", meaning: "namespaces whose reads of logs, artifacts and values the audit log records, separated by commas; `*`: all; empty: none. Give all nodes the same value"},
	"audit_checkpoints":        {def: "`DATA/audit/checkpoints`", meaning: "file to which a node appends a signed checkpoint of the audit log each minute in which the log has grown; put it on another disk or machine"},
	"retention_records":        {meaning: "number of kept rows of former processes; only those that registered before `retention_age` are deleted", reread: true},
}

// TestConfigPage checks that docs/config.md agrees with the table of settings.
func TestConfigPage(t *testing.T) {
	const file = "../../docs/config.md"
	want := configPage(t)
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(is, want) {
		t.Errorf("%s differs from the table of settings: run make docs", file)
	}
}

// unflagged are the settings without a flag: secrets, and those that few operators change.
// TestFlagsOfSettings in cmd/skein compares the page with the commands.
var unflagged = []string{
	"balance", "recovery", "unclaimed", "tasks_max", "api_token", "auth", "public_url", "secret_providers", "audit_key_file", "audit_checkpoints", "audit_reads", "retention_audit", "session_rate", "token_rate", "session_streams", "token_streams", "certificate_life", "node_certificates_only",
	"retention_keys_age", "retention_keys", "retention_calls_age", "retention_calls", "retention_events_age", "retention_events", "retention_fires_age", "retention_exceptions_age",
	"retention_fires", "retention_days_age", "retention_tally_age", "retention_backfills_age", "retention_backfills", "retention_versions",
	"retention_records_age", "retention_records",
}

func configPage(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(`# Settings

This page is for operators: it lists every setting of nodes, workers and the command line. A setting has one name. It is taken from
the flag (` + "`--log-level`" + `), else from the environment (` + "`SKEIN_LOG_LEVEL`" + `), else from the config file (` + "`log_level:`" + ` in
` + "`$XDG_CONFIG_HOME/skein/config.yaml`, or `--config FILE`" + `), else it has its default. A command has the flags of the settings that it
uses; a setting with – has none.
` + "`skein config view --origin`" + ` shows the values, and where each came from.

"Takes effect" says whether a running process reads the setting again on SIGHUP, or needs a restart. A restart is cheap: running
attempts continue in the keeper.

This page is generated by ` + "`make docs`" + ` from the table of settings.

| setting | flag | environment | default | takes effect | meaning |
|---|---|---|---|---|---|
`)
	seen := map[string]bool{}
	for _, s := range settings() {
		d, known := descriptions[s.name]
		if !known {
			t.Errorf("setting %s has no meaning", s.name)
		}
		seen[s.name] = true
		def := d.def
		if def == "" && s.def() != "" {
			def = "`" + s.def() + "`"
		}
		effect := "restart"
		if d.reread {
			effect = "SIGHUP"
		}
		flag := "`--" + s.flag() + "`"
		if slices.Contains(unflagged, s.name) {
			flag = "–"
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s | %s | %s |\n", s.name, flag, s.env(), def, effect, strings.ReplaceAll(d.meaning, "|", `\|`))
	}
	for name := range descriptions {
		if !seen[name] {
			t.Errorf("there is no setting %s", name)
		}
	}
	return b.Bytes()
}
