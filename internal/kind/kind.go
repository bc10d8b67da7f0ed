// Package kind is the contract of the kinds of tasks that are part of this program. A task of such a kind
// runs as a child process of its attempt: this program, started again as `skein kind NAME`. The process gets
// its input in a file. It answers by files and by its exit code, as the process of an extension does.
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
	// Main does the work and returns the exit code. ctx ends when the attempt is told to end, by SIGTERM. After
	// the grace of the task the process is killed.
	Main(ctx context.Context, env *Env) int
}

// Connector is a kind whose input may name a connection, by the key connection.
type Connector interface {
	Kind
	// Connections are the types that the connection may have.
	Connections() []string
}

// Needy is a kind that needs something of the machine, such as a program.
type Needy interface {
	Kind
	// Missing returns what the machine lacks for this kind, and the remedy. The machine then gets no tasks
	// of the kind. nil means that nothing is missing. settings are the machine's settings for the kind, as
	// in Input.
	Missing(settings json.RawMessage) error
}

// Boxed is a kind that isolates the command of a task itself, such as in a container. Its exit code is that
// of the command. If the process itself fails, it writes the reason to the file that EndFile names.
type Boxed interface {
	Kind
	Boxed()
}

// Preparer is a kind that keeps files of a namespace on the machine, such as packages. An attempt then has
// two processes. The first one is Prepare. If it returns Done, Main follows in a process of its own. Only
// Prepare may write the files that are kept. It may read the files of the task, and it gets none of its
// variables. The exit code of Main is that of the command, as for a boxed kind.
type Preparer interface {
	Kind
	Prepare(ctx context.Context, env *Env) int
}

// Releaser is a kind whose attempts start work outside of their process, such as a job of a cluster. An
// attempt names its work with Env.SetHandle.
type Releaser interface {
	Kind
	// Release ends the work that Input.Handle names. It returns Done once the work is gone, also if there was
	// none. Every other code repeats it later.
	Release(ctx context.Context, env *Env) int
	// Adopts reports whether the attempt after a lost one goes on with its work. Env.Earlier names that work.
	Adopts() bool
}

// Earlier is an attempt before this one of the same task. It is the element of the file that the variable
// SKEIN_EARLIER names.
type Earlier struct {
	Token int64  `json:"token"`
	End   string `json:"end"` // failed, lost, stopped or succeeded
	// Handle is its work that is not released; nil: there is none, or it has none yet.
	Handle *string `json:"handle"`
	Orphan bool    `json:"orphan"` // it could not be released
}

// Lost returns the attempts whose work may go on, the latest first: those that were lost since the last one
// that ended by itself. That one had the result of the work before it.
func (e *Env) Lost() (all []*Earlier) {
	for i := len(e.Earlier) - 1; i >= 0 && e.Earlier[i].End == "lost" && !e.Earlier[i].Orphan; i-- {
		all = append(all, &e.Earlier[i])
	}
	return all
}

// EndFile returns the path of the file for the reason why the process of a boxed kind, or the
// second process of a Preparer, ended itself. output is
// the value of OutputVar.
func EndFile(output string) string { return output + ".end" }

// Exit codes of Main. Every other code is a failure, which is retried as the task says.
const (
	Done      = 0
	Failed    = 1
	Away      = 75 // the other side cannot be reached: the attempt is repeated for the patience of the task
	Permanent = 78 // failed, and a retry cannot help
	Kept      = 79 // done although it was told to end: its effect is durable, and a retry would repeat it
)

// Env holds the inputs of an attempt, and the functions by which it returns results.
type Env struct {
	Input Input
	// Output takes the outputs of the task: JSON objects, one a line. Of equal names the last counts. They are
	// kept only if Main returns Done or Kept.
	Output         io.Writer
	Stdout, Stderr io.Writer // the log of the attempt
	Dir            string    // the working folder of the attempt
	// Earlier are the attempts of a Releaser before this one, the oldest first.
	Earlier []Earlier
	// Kept is the folder for the files that a Preparer keeps for the namespace.
	Kept string
	// Files begins the paths of files that this process leaves to the next one of the attempt.
	Files string
}

// Input is the content of the file that the variable SKEIN_INPUT names.
type Input struct {
	Kind string `json:"kind"`
	// With is the input of the task with its expressions evaluated: a JSON object.
	With json.RawMessage `json:"with"`
	// Connection is the connection that the key connection of With names, with the values of its secrets and
	// its type as the key type. nil: With names none.
	Connection json.RawMessage `json:"connection,omitempty"`
	// Egress holds the rules of egress of the machine, as package egress writes them. Kinds of the house obey
	// them.
	Egress json.RawMessage `json:"egress,omitempty"`
	// Settings holds what the settings of the machine contain for this kind. It is nil if they contain
	// nothing.
	Settings json.RawMessage `json:"settings,omitempty"`
	// Secrets are the values of the secrets of the attempt, for kinds of this program. A kind that cannot take
	// its effect back looks for them in its results first, because the worker refuses outputs that hold one.
	Secrets []string `json:"secrets,omitempty"`
	// Instant is the logical instant of the run.
	Instant   time.Time `json:"instant"`
	Namespace string    `json:"namespace"`
	Workflow  string    `json:"workflow"`
	Run       string    `json:"run"`
	Task      string    `json:"task"`
	Token     int64     `json:"token"`
	// Key is the same for all attempts of the task in this generation.
	Key string `json:"key"`
	// Handle is what has to be released. "": the work of a task has to be done.
	Handle string `json:"handle,omitempty"`
}

// SetHandle names the work that the attempt of a Releaser starts outside of its process. Only the first
// handle of an attempt counts. Skein sees it within a second. So an attempt names its work before it starts
// the work, if it can.
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
