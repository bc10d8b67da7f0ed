package worker

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Key names an attempt. RunID, Task and Attempt identify it. The other fields are for the environment of the
// task and the path of its log.
type Key struct {
	Namespace, Workflow string
	RunID               string
	Task                string // [A-Za-z0-9_-]{1,100}; instances of a foreach have a suffix such as .0 or .0.3
	Attempt             int    // the fencing token of the attempt (dag.Token)
	IdempotencyKey      string // the same for every attempt; "" means <run>/<task>
	Traceparent         string // W3C trace context; "" means derived from the run
	Ref                 int64  // number chosen by the caller; every report about the attempt contains it
}

// Access lists the files that a task may reach, in addition to the files of every task. Paths are absolute.
type Access struct {
	Read  []string // folders and files that the attempt may read and execute
	Write []string // folders and files that the attempt may also change
}

// Script is code for an interpreter. Exactly one of Code and File is set.
type Script struct {
	Interpreter string // such as python3 or bash; "" means that of the #! line, or else of the file's extension
	// Code is the code itself. The worker writes it into a file in the attempt's folder, and never passes it
	// as an argument.
	Code string
	File string // relative to the working directory, or absolute
	Args []string
}

// File is one file of a workflow version. Name is a relative path with slashes that stays inside of the
// folder.
type File struct {
	Name    string
	Mode    fs.FileMode // only the permission bits are used
	Content []byte
}

// FileSource returns the files of a workflow version. It is called at most once for each attempt, from the
// attempt's goroutine, and only if the attempt has a fresh working folder.
type FileSource func() ([]File, error)

// Job is everything needed to run one attempt. The worker only reads it. Slices and maps must not change
// until the Result is reported.
type Job struct {
	Key    Key
	Argv   []string // program and arguments; no shell is added
	Script *Script  // nil when Argv is set
	HTTP   *Request // a request instead of a program, that is of Argv and Script
	Kind   *Kind    // the kind whose process this is; nil for an ordinary program

	// Access lists files that the attempt may reach at the level fence, in addition to the files of every
	// attempt. It is nil if there are none.
	Access *Access

	// Isolation is the least level of isolation of the attempt, one of Levels. The attempt runs at the lowest
	// of the worker's levels that is not below it. "" means the worker's least level.
	Isolation string
	// IsolationDefault is the level of the attempt on a worker with Config.IsolationAuto, one of Levels. ""
	// means IsolationNone.
	IsolationDefault string
	// User names the user of the machine that the processes run as, at the level user and above. It is one of
	// Config.Users. "" means that the worker chooses a user for the namespace.
	User string

	Env []string // "K=V"; if a name occurs twice, the last value is used; the worker sets SKEIN_*
	// Working directory; "" means a fresh one with Files in it, which is removed after the attempt.
	Dir string
	// Origin is the folder of the workflow file, which an isolated attempt may read, or "".
	Origin string
	Files  FileSource // nil if there are none

	Timeout       time.Duration // longest time from the start; 0 means no limit
	KillGrace     time.Duration // time between TERM and KILL; 0 means 10 s
	WarnOnTimeout bool          // the attempt is not killed at its Timeout; Result.TimedOut reports it

	// Secrets are values that are masked in the log, and must not be in outputs and messages.
	Secrets []string

	// CPU, in thousandths of a core, and Memory, in bytes, limit the attempt if the worker can enforce this.
	// 0 means no limit.
	CPU, Memory int64

	OutputsMax  int               // bytes accepted from $SKEIN_OUTPUT; 0 means 64 KiB
	OutputTypes map[string]string // type of each declared output: string, int, float, bool or json
	LockToken   int64             // SKEIN_LOCK_TOKEN; 0 if no lock is held

	// Handle says that the attempt may name work outside of its process in the file $SKEIN_HANDLE. Earlier
	// and Input are the contents of the files that $SKEIN_EARLIER and $SKEIN_INPUT name. If one is nil, its
	// file does not exist.
	Handle         bool
	Earlier, Input []byte
	// Adopts says that the attempt after a lost one continues the work that the handle names.
	Adopts bool

	// Artifacts are names and patterns of files that are stored after a success, in the folder ArtifactsIn ("" =
	// the data folder). If they cannot be stored, the attempt fails with CauseArtifacts.
	Artifacts   []string
	ArtifactsIn string

	// Inputs provides the files that the attempt gets in its working folder. It is nil if there are none. If
	// they cannot be read, the attempt fails with CauseInputs. The time for reading them does not count
	// against Timeout. A Link reads Inputs and sets Given, and a Worker reads only Given.
	Inputs  InputSource
	Given   []Input
	Fetched bool // some of Given were fetched for this attempt only
}

// SizeMax bounds the Size of a job that a node makes. The messages that contain jobs are bounded, and a
// larger message would end the connection of all attempts.
const SizeMax = 2 << 20

// Size returns the size of the texts of a job in a message, in bytes. Files and inputs are sent separately.
func (j *Job) Size() int {
	n := 0
	for _, list := range [][]string{j.Argv, j.Env, j.Secrets, j.Artifacts} {
		n += sizeOf(list)
	}
	n += len(j.Earlier) + len(j.Input)
	if s := j.Script; s != nil {
		n += len(s.Code) + sizeOf(s.Args)
	}
	if a := j.Access; a != nil {
		n += sizeOf(a.Read) + sizeOf(a.Write)
	}
	if k := j.Kind; k != nil {
		n += len(k.Input)
	}
	if q := j.HTTP; q != nil {
		n += len(q.URL) + len(q.Body) + len(q.Contains) + sizeOf(q.Keep)
		for _, h := range q.Header {
			n += sizeOf(h[:])
		}
	}
	return n
}

// sizeOf returns the bytes of texts, and adds a few for the frame of each text.
func sizeOf(list []string) int {
	n := 8 * len(list)
	for _, text := range list {
		n += len(text)
	}
	return n
}

// States of a Result.
const (
	Succeeded = "succeeded"
	Failed    = "failed"
	Stopped   = "stopped"
)

// Causes of a Result.
const (
	CauseExit      = "exit"          // failed: exit code other than 0
	CauseSignal    = "signal"        // failed: ended by a signal that the worker did not send
	CauseMemory    = "memory"        // failed: the kernel ended it, because it used more than its memory
	CauseTimeout   = "timeout"       // failed: ended by the worker at Timeout
	CauseStart     = "start"         // failed: the program could not start; Message says what to do
	CauseOutput    = "output"        // failed: exit code 0, but its outputs are not as declared
	CauseArtifacts = "artifacts"     // failed: exit code 0, but its artifacts could not be kept
	CauseSecret    = "secret"        // failed: exit code 0, but its outputs hold a secret
	CauseInputs    = "inputs"        // failed: never ran, because its inputs could not be read
	CauseStopped   = "stopped"       // stopped: Stop with ModeTerm
	CauseKilled    = "killed"        // stopped: Stop with ModeKill
	CauseClosed    = "worker_closed" // stopped: the worker closed; nothing says that the task is faulty
	CauseLease     = "lease"         // stopped: the lease ended; the attempt is lost
	CauseLost      = "lost"          // stopped: its keeper and its processes are gone; the attempt is lost
	CauseRoom      = "no_room"       // stopped: never ran, because the disk of the data folder is full; the attempt is lost
	CauseFull      = "worker_full"   // failed: more attempts than Slots were started, which is a bug of the caller
)

// Result is the end of an attempt.
type Result struct {
	Key           Key
	State         string          // Succeeded | Failed | Stopped
	Cause         string          // "" when succeeded
	Exited        bool            // the main process has exited, so ExitCode is valid
	ExitCode      int             // -1 unless Exited
	Signal        string          // "SIGSEGV", when a signal ended it
	Message       string          // one sentence for a person, valid UTF-8 without control characters, ≤ 1 KiB
	TimedOut      bool            // the attempt ran until Timeout; this is also set with WarnOnTimeout
	Handle        string          `json:",omitempty"` // handle of work outside of the process; "" if there is none
	Adopts        bool            `json:",omitempty"` // Adopts of the job, if there is a handle
	Outputs       json.RawMessage `json:",omitempty"` // empty, and not the text null, if there are no outputs
	Started       time.Time       // zero if it never ran
	Finished      time.Time       // when the main process ended, or the start failed
	LogBytes      int64           // number of bytes in the log file
	ArtifactBytes int64           // number of bytes in its artifacts
	LogLost       int64           // bytes missing in the log, because they exceeded LogMax or could not be written
}

// messageMax bounds Result.Message in bytes.
const messageMax = 1 << 10

// oneLine returns a sentence in a form that is safe to store and to show. The sentence may contain text from
// tasks.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= messageMax {
		return s
	}
	const dots = "…"
	return strings.ToValidUTF8(s[:messageMax-len(dots)], "") + dots
}

// Bounds of names, in bytes. Together they keep <run>.<task>.<attempt>.code.xx below NAME_MAX (255).
const (
	nameMax  = 100 // namespace, workflow
	runMax   = 64
	taskMax  = 100 // without the suffix of foreach
	indexMax = 40  // the suffix of foreach
)

// check returns an error for a key whose names could lead out of their folders.
func (k Key) check() error {
	switch {
	case !plainName(k.Namespace, nameMax):
		return fmt.Errorf("namespace %q is not a plain name", k.Namespace)
	case !plainName(k.Workflow, nameMax):
		return fmt.Errorf("workflow %q is not a plain name", k.Workflow)
	case strings.Contains(k.RunID, ".") || !plainName(k.RunID, runMax):
		return fmt.Errorf("run id %q is not a plain name", k.RunID)
	case !taskName(k.Task):
		return fmt.Errorf("task %q is not a task name", k.Task)
	case k.Attempt < 1:
		return fmt.Errorf("attempt %d is not a positive number", k.Attempt)
	}
	return nil
}

// plainName reports whether a name consists of letters, digits, _, - and inner dots. So a plain name is never
// "." or "..".
func plainName(s string, lenMax int) bool {
	if s == "" || len(s) > lenMax || s[0] == '.' {
		return false
	}
	for i := range len(s) {
		if !wordByte(s[i]) && s[i] != '.' {
			return false
		}
	}
	return true
}

// taskName reports whether a name matches [A-Za-z0-9_-]{1,100}(\.[0-9]+)*.
func taskName(s string) bool {
	base, index, nested := strings.Cut(s, ".")
	if base == "" || len(base) > taskMax || len(index) > indexMax {
		return false
	}
	for i := range len(base) {
		if !wordByte(base[i]) {
			return false
		}
	}
	if !nested {
		return true
	}
	for part := range strings.SplitSeq(index, ".") {
		if part == "" || strings.Trim(part, "0123456789") != "" {
			return false
		}
	}
	return true
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// LogPath returns the path of an attempt's log. It returns "" for a key that no attempt can have, because
// the names may come from a request. If a known attempt has no file, it has printed nothing.
func LogPath(dataDir string, key Key) string {
	if key.check() != nil {
		return ""
	}
	return filepath.Join(dataDir, "logs", key.Namespace, key.Workflow, key.RunID,
		key.Task+"."+strconv.Itoa(key.Attempt)+".log")
}

// fileStem is the unique prefix of an attempt's files in its slot's folder.
func (k Key) fileStem() string { return k.RunID + "." + k.Task + "." + strconv.Itoa(k.Attempt) }
