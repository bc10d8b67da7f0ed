package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strconv"
	"strings"

	"skein.dev/skein/internal/dag"
)

// nodeEnv are the names that every task gets from the node's environment, if set there.
var nodeEnv = [...]string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}

// pathDefault is used when the node itself has no PATH, as under some init systems.
const pathDefault = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// outputVar is also the mark by which processes are recognised.
const outputVar = "SKEIN_OUTPUT"

// baseEnv is the part of the node's environment that reaches tasks.
func baseEnv(pass []string) []string {
	env := make([]string, 0, len(nodeEnv)+len(pass))
	for _, name := range append(nodeEnv[:len(nodeEnv):len(nodeEnv)], pass...) {
		value, ok := os.LookupEnv(name)
		if !ok && name == "PATH" {
			value, ok = pathDefault, true
		}
		if ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// taskEnv is the whole environment of an attempt, each name once: the contract's variables before the
// job's before the node's. It also gives the PATH in it, where programs are searched.
func taskEnv(job *Job, base []string, output string) (env []string, path string) {
	k := &job.Key
	idempotency := k.IdempotencyKey
	if idempotency == "" {
		idempotency = k.RunID + "/" + k.Task
	}
	trace := k.Traceparent
	if trace == "" {
		trace = derivedTrace(k, "00")
	}
	env = make([]string, 0, 10+len(job.Env)+len(base))
	env = append(env,
		outputVar+"="+output,
		"SKEIN_RUN_ID="+k.RunID,
		"SKEIN_TASK="+k.Task,
		"SKEIN_ATTEMPT="+strconv.Itoa(int(dag.Token(k.Attempt).Number())),
		"SKEIN_TOKEN="+strconv.Itoa(k.Attempt),
		"SKEIN_IDEMPOTENCY_KEY="+idempotency,
		"SKEIN_WORKFLOW="+k.Workflow,
		"SKEIN_NAMESPACE="+k.Namespace,
		"SKEIN_LOCK_TOKEN="+strconv.FormatInt(job.LockToken, 10),
		"TRACEPARENT="+trace,
	)
	seen := make(map[string]bool, cap(env))
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		seen[name] = true
	}
	add := func(kv string) {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" || seen[name] {
			return
		}
		seen[name] = true
		if name == "PATH" {
			path = value
		}
		env = append(env, kv)
	}
	for i := len(job.Env) - 1; i >= 0; i-- { // from the end: the last of a name wins
		add(job.Env[i])
	}
	for _, kv := range base {
		add(kv)
	}
	return env, path
}

// collectorSet reports whether the environment of this process names a collector of traces.
func collectorSet() bool {
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// derivedTrace gives the attempts of one run one trace, each with its own span. The flags are 01 if the trace
// is sampled, else 00: programs then drop their spans.
func derivedTrace(k *Key, flags string) string {
	run := sha256.Sum256([]byte(k.RunID))
	span := sha256.Sum256([]byte(k.fileStem()))
	return "00-" + hex.EncodeToString(run[:16]) + "-" + hex.EncodeToString(span[:8]) + "-" + flags
}
