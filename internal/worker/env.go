package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strconv"
	"strings"

	"skein.dev/skein/internal/dag"
)

// nodeEnv lists the variables that every task gets from the node's environment, if they are set there.
var nodeEnv = [...]string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}

// pathDefault is the PATH if the node has none, as under some init systems.
const pathDefault = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// outputVar names the file for outputs. By this variable, the worker also recognises the processes of an
// attempt.
const outputVar = "SKEIN_OUTPUT"

// baseEnv returns the variables of the node that tasks get.
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

// taskEnv returns the environment of an attempt. Each name occurs once: Skein's own variables take precedence
// over the job's variables, and the job's over the node's. taskEnv also returns the PATH in which programs
// are searched.
func taskEnv(job *Job, base []string, output string, own ...string) (env []string, path string) {
	k := &job.Key
	idempotency := k.IdempotencyKey
	if idempotency == "" {
		idempotency = k.RunID + "/" + k.Task
	}
	trace := k.Traceparent
	if trace == "" {
		trace = derivedTrace(k, "00")
	}
	env = make([]string, 0, 11+len(job.Env)+len(base))
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
	if job.Kind != nil {
		env = append(env, inputVar+"="+inputPath)
	}
	env = append(env, own...)
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
	for i := len(job.Env) - 1; i >= 0; i-- { // backwards, because the last value of a name is used
		add(job.Env[i])
	}
	for _, kv := range base {
		add(kv)
	}
	return env, path
}

// collectorSet reports whether the environment of this process names a trace collector.
func collectorSet() bool {
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// sampledTrace returns the trace context of an attempt with the sampled flag.
func sampledTrace(k *Key) string {
	if k.Traceparent == "" {
		return derivedTrace(k, "01")
	}
	if given, cut := strings.CutSuffix(k.Traceparent, "-00"); cut {
		return given + "-01"
	}
	return k.Traceparent
}

// derivedTrace gives the attempts of one run one trace, each with its own span. The flags are 01 if the
// trace is sampled. Otherwise they are 00, and programs drop their spans.
func derivedTrace(k *Key, flags string) string {
	run := sha256.Sum256([]byte(k.RunID))
	span := sha256.Sum256([]byte(k.fileStem()))
	return "00-" + hex.EncodeToString(run[:16]) + "-" + hex.EncodeToString(span[:8]) + "-" + flags
}
