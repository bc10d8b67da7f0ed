// Package kind is the contract of the kinds of tasks that are built into this program. A task of such a kind
// runs as a child process of its attempt: this program, started again as `skein kind NAME`. Like the process
// of an extension, it gets its input in a file, and answers with files and with its exit code.
package kind

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"
)

// Kind is one kind of task.
type Kind interface {
	Name() string
	// Main does the work and returns the exit code. ctx ends when the process gets SIGTERM because the
	// attempt must end. After the task's grace period the process is killed.
	Main(ctx context.Context, env *Env) int
}

// Connector is a kind whose input may name a connection under the key connection.
type Connector interface {
	Kind
	// Connections returns the types that the connection may have.
	Connections() []string
}

// Needy is a kind that requires something of the machine, such as a program.
type Needy interface {
	Kind
	// Missing returns an error if the machine lacks something for this kind. The error names it, and the
	// remedy. The machine then gets no tasks of the kind. settings holds the machine's settings for the kind,
	// as in Input.
	Missing(settings json.RawMessage) error
}

// Boxed is a kind that itself isolates the command of a task, for example in a container. Its exit code is
// that of the command. If the process itself fails, it writes the reason to the file at EndFile.
type Boxed interface {
	Kind
	Boxed()
}

// Preparer is a kind that keeps files of a namespace on the machine, such as packages. An attempt then has
// two processes, one after the other. The first one runs Prepare. If Prepare returns Done, the second one
// runs Main. Only Prepare may write the kept files. It may read the files of the task, but gets none of its
// variables. As for a boxed kind, the exit code of Main is that of the command.
type Preparer interface {
	Kind
	Prepare(ctx context.Context, env *Env) int
}

// Releaser is a kind whose attempts start work outside of their process, such as a job in a cluster. An
// attempt names this work with Env.SetHandle.
type Releaser interface {
	Kind
	// Release ends the work that Input.Handle names. It returns Done once the work has ended, or if there was
	// none. After any other code, Release is called again later.
	Release(ctx context.Context, env *Env) int
	// Adopts reports whether an attempt can continue the work of a lost one. Env.Earlier names that work.
	Adopts() bool
}

// Earlier is an earlier attempt of the same task. The file that SKEIN_EARLIER names holds a list of these.
type Earlier struct {
	Token int64  `json:"token"`
	End   string `json:"end"` // failed, lost, stopped or succeeded
	// Handle names its work that was not released yet. It is nil if there is no such work, or if the attempt
	// has not named it.
	Handle *string `json:"handle"`
	Orphan bool    `json:"orphan"` // the work could not be released
}

// Lost returns the lost attempts directly before this one, latest first. Their work may still be running. The
// list stops at an attempt that ended by itself, because work before that one no longer matters, and at an
// orphan.
func (e *Env) Lost() (all []*Earlier) {
	for i := len(e.Earlier) - 1; i >= 0 && e.Earlier[i].End == "lost" && !e.Earlier[i].Orphan; i-- {
		all = append(all, &e.Earlier[i])
	}
	return all
}

// EndFile returns the path of a file for an error. If the process of a boxed kind, or the second process of a
// Preparer, fails by itself, it writes the reason there. output is the value of OutputVar.
func EndFile(output string) string { return output + ".end" }

// Exit codes of Main. Any other code is a failure, which is retried as the task says.
const (
	Done      = 0
	Failed    = 1
	Away      = 75 // a server cannot be reached: the attempt is repeated for as long as the task's patience
	Permanent = 78 // the attempt failed, and a retry cannot help
	Kept      = 79 // done although it had to end: the effect is durable, and a retry would repeat it
)

// Env holds the inputs of an attempt, and the means to return its results.
type Env struct {
	Input Input
	// Output takes the outputs of the task as JSON objects, one on each line. If a name occurs twice, the
	// last value wins. The outputs are kept only if Main returns Done or Kept.
	Output         io.Writer
	Stdout, Stderr io.Writer // the log of the attempt
	Dir            string    // the working folder of the attempt
	// Earlier lists the earlier attempts of a Releaser's task, oldest first.
	Earlier []Earlier
	// Kept is the folder of the files that a Preparer keeps for the namespace.
	Kept string
	// Files is the prefix of the paths of files that one process of the attempt passes to the next.
	Files string
}

// Input is the content of the file that SKEIN_INPUT names.
type Input struct {
	Kind string `json:"kind"`
	// With is the input of the task, a JSON object. Its expressions are evaluated.
	With json.RawMessage `json:"with"`
	// Connection holds the connection that With names under the key connection. It includes the values of the
	// secrets, and the connection's type under the key type. It is nil if With names no connection.
	Connection json.RawMessage `json:"connection,omitempty"`
	// Egress holds the machine's egress rules in the form of egress.Rules. Built-in kinds obey them.
	Egress json.RawMessage `json:"egress,omitempty"`
	// Settings holds the machine's settings for this kind. It is nil if there are none.
	Settings json.RawMessage `json:"settings,omitempty"`
	// Secrets holds the values of the attempt's secrets, for built-in kinds. The worker refuses outputs that
	// contain one. So a kind whose effect cannot be undone checks its results for them first.
	Secrets []string `json:"secrets,omitempty"`
	// CPU, in thousandths of a core, and Memory, in bytes, limit the attempt. The machine limits the
	// processes of the attempt. A built-in kind limits work that it starts elsewhere. 0 means no limit.
	CPU    int64 `json:"cpu,omitempty"`
	Memory int64 `json:"memory,omitempty"`
	// Instant is the logical instant of the run.
	Instant   time.Time `json:"instant"`
	Namespace string    `json:"namespace"`
	Workflow  string    `json:"workflow"`
	Run       string    `json:"run"`
	Task      string    `json:"task"`
	Token     int64     `json:"token"`
	// Key is the same for all attempts of the task in this generation.
	Key string `json:"key"`
	// Handle names the work to release. It is "" if the process is to do the work of a task.
	Handle string `json:"handle,omitempty"`
}

// SetHandle names the work that the attempt of a Releaser starts outside of its process. Only the first
// handle of an attempt counts. Skein reads it within a second. If possible, call SetHandle before the work
// starts.
func (e *Env) SetHandle(text string) error {
	path := os.Getenv(handleVar)
	if path == "" {
		return errors.New(handleVar + " is not set")
	}
	return os.WriteFile(path, []byte(text+"\n"), 0o600)
}

// Set writes one output.
func (e *Env) Set(name string, value any) error {
	return json.NewEncoder(e.Output).Encode(map[string]any{name: value})
}
