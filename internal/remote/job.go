package remote

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/worker"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// Folder returns the working folder of a task. It is the folder of the task's workflow file if this machine
// has that folder, so that the task finds the other files there. Otherwise it is "", which means a new folder
// with the files of the version.
func Folder(origin, dir string) (string, error) {
	if filepath.IsAbs(dir) {
		return dir, nil
	}
	if origin != "" {
		if info, err := os.Stat(origin); err == nil && info.IsDir() {
			return filepath.Join(origin, dir), nil
		}
	}
	if clean := filepath.Clean(dir); dir != "" && clean != "." {
		return "", fmt.Errorf("dir %q is below the folder of the workflow file, which does not exist on this machine; "+
			"leave dir out and let `files` bring what the task needs", dir)
	}
	return "", nil
}

// job converts a job of the home to the worker's form.
func job(j *workerv1.Job, files worker.FileSource) (*worker.Job, error) {
	out := &worker.Job{
		Key: worker.Key{Namespace: j.Namespace, Workflow: j.Workflow, RunID: j.Attempt.Run, Task: j.Task, Attempt: int(j.Attempt.Token), Ref: int64(j.Attempt.Task),
			IdempotencyKey: j.IdempotencyKey, Traceparent: j.Traceparent},
		Argv: j.Argv, Env: j.Env, Timeout: time.Duration(j.TimeoutMillis) * time.Millisecond,
		KillGrace: time.Duration(j.KillGraceMillis) * time.Millisecond, WarnOnTimeout: j.WarnOnTimeout, OutputTypes: j.Outputs, LockToken: j.LockToken,
		CPU: j.CpuMillis, Memory: j.MemoryBytes, Artifacts: j.Artifacts, Secrets: j.Secrets,
		Handle: j.Handle, Adopts: j.Adopts, Earlier: present(j.Earlier), Input: present(j.Given), Isolation: j.Isolation, IsolationDefault: j.IsolationDefault, User: j.RunAs,
	}
	if len(j.Read)+len(j.Write) > 0 {
		out.Access = &worker.Access{Read: j.Read, Write: j.Write}
	}
	if s := j.Script; s != nil {
		out.Script = &worker.Script{Interpreter: s.Interpreter, Code: s.Code, File: s.File, Args: s.Args}
	}
	if q := j.Request; q != nil {
		out.HTTP = &worker.Request{Method: q.Method, URL: q.Url, Body: q.Body, Timeout: time.Duration(q.TimeoutMillis) * time.Millisecond,
			Contains: q.Contains, Answer: q.Answer, Keep: q.Keep}
		for _, s := range q.Status {
			out.HTTP.Status = append(out.HTTP.Status, int(s))
		}
		for _, h := range q.Headers {
			out.HTTP.Header = append(out.HTTP.Header, [2]string{h.Name, h.Value})
		}
	}
	if p := j.Process; p != nil {
		out.Kind = &worker.Kind{Name: p.Kind, Input: p.Input, Patience: time.Duration(p.PatienceMillis) * time.Millisecond, Release: p.Release}
	}
	dir, err := Folder(j.Origin, j.Dir)
	if err != nil {
		return out, err
	}
	if out.Dir, out.Origin = dir, j.Origin; dir == "" && j.Files && out.HTTP == nil {
		out.Files = files
	}
	return out, nil
}

// present returns nil for an empty value. The protocol does not distinguish an empty value from a missing
// one.
func present(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// Wire converts a job to a message. rules are the rules of egress for the process of a kind. The caller adds
// the attempt.
func Wire(j *worker.Job, origin, dir string, rules egress.Rules) *workerv1.Job {
	out := &workerv1.Job{Namespace: j.Key.Namespace, Workflow: j.Key.Workflow, Task: j.Key.Task, IdempotencyKey: j.Key.IdempotencyKey, Traceparent: j.Key.Traceparent,
		Argv: j.Argv, Env: j.Env, Origin: origin, Dir: dir, Files: true, TimeoutMillis: j.Timeout.Milliseconds(),
		KillGraceMillis: j.KillGrace.Milliseconds(), WarnOnTimeout: j.WarnOnTimeout, Outputs: j.OutputTypes, LockToken: j.LockToken,
		CpuMillis: j.CPU, MemoryBytes: j.Memory, Artifacts: j.Artifacts, Inputs: j.Inputs != nil, Secrets: j.Secrets,
		Handle: j.Handle, Adopts: j.Adopts, Earlier: j.Earlier, Given: j.Input, Isolation: j.Isolation, IsolationDefault: j.IsolationDefault, RunAs: j.User}
	if a := j.Access; a != nil {
		out.Read, out.Write = a.Read, a.Write
	}
	if s := j.Script; s != nil {
		out.Script = &workerv1.Script{Interpreter: s.Interpreter, Code: s.Code, File: s.File, Args: s.Args}
	}
	if k := j.Kind; k != nil {
		out.Process = &workerv1.Process{Kind: k.Name, Input: k.Input, PatienceMillis: k.Patience.Milliseconds(), Release: k.Release, Egress: rules.Policies, Own: wireOwn(rules.Own)}
	}
	if q := j.HTTP; q != nil {
		out.Request = &workerv1.Request{Method: q.Method, Url: q.URL, Body: q.Body, TimeoutMillis: q.Timeout.Milliseconds(),
			Contains: q.Contains, Answer: q.Answer, Keep: q.Keep, Egress: q.Egress.Policies, Own: wireOwn(q.Egress.Own)}
		for _, s := range q.Status {
			out.Request.Status = append(out.Request.Status, int32(s))
		}
		for _, h := range q.Header {
			out.Request.Headers = append(out.Request.Headers, &workerv1.Header{Name: h[0], Value: h[1]})
		}
	}
	return out
}

// filesOf converts an answer of Files of the protocol.
func filesOf(in *workerv1.FilesResponse) []worker.File {
	files := make([]worker.File, len(in.Files))
	for i, f := range in.Files {
		files[i] = worker.File{Name: f.Name, Mode: fs.FileMode(f.Mode), Content: f.Data}
	}
	return files
}

// lost maps the causes of results without a statement about the task to texts for people.
var lost = map[string]string{worker.CauseLease: "its lease ended", worker.CauseLost: "its keeper died", worker.CauseRoom: dag.LostNoRoom}

// resultOf makes the report of an attempt's end.
func resultOf(a *workerv1.Attempt, r *worker.Result) *workerv1.Result {
	if why := lost[r.Cause]; why != "" {
		return &workerv1.Result{Attempt: a, State: "lost", Cause: why}
	}
	out := &workerv1.Result{Attempt: a, State: r.State, Cause: r.Cause, Exited: r.Exited, Signal: r.Signal, Message: r.Message,
		LogBytes: r.LogBytes, ArtifactBytes: r.ArtifactBytes, TimedOut: r.TimedOut, Outputs: r.Outputs, Handle: r.Handle, Adopts: r.Adopts, StartedMicros: micros(r.Started), FinishedMicros: micros(r.Finished)}
	if r.Exited {
		out.ExitCode = int32(r.ExitCode)
	}
	return out
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
