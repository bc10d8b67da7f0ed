package worker

import "time"

// Kind makes an attempt the process of a kind. The process gets its input in a file, which is in the folder
// of the attempt and removed with it. Its exit code says more than that of a command: see ExitAway and
// ExitPermanent.
type Kind struct {
	Name string // for people
	// Label is the first line of the log, which records the version of an extension; "": there is no such line.
	Label string
	// House reports whether this program runs the kind, as `kind NAME` of Argv. Then Job.Argv has only the
	// arguments.
	House bool
	// Release: the process releases the handle that its input holds, in place of the work of a task.
	Release bool
	Folder  string // the folder of the extension, which the process may read and execute; "": none
	Input   []byte // the content of the file that SKEIN_INPUT names; it may hold secrets
	// Patience is how long the process is started again after ExitAway; 0: PatienceDefault.
	Patience time.Duration
	// Boxed means that the process isolates the command of the task itself, such as in a container. The process
	// gets no fence, which would keep it from making the container. Its exit code is that of the command, unless
	// the process has written why it ended itself: see endFile.
	Boxed bool
}

// Exit codes of the process of a kind, in addition to 0 for success. Every other code is a failure.
const (
	ExitAway      = 75 // the other side cannot be reached
	ExitPermanent = 78 // failed, and a retry cannot help
	ExitKept      = 79 // done although the attempt was told to end: its effect is durable
)

// PatienceDefault is the default of Kind.Patience.
const PatienceDefault = 10 * time.Minute

// Causes of the ends of such attempts.
const (
	CauseAway      = "away"      // failed: the other side was away for the whole patience
	CausePermanent = "permanent" // failed: exit code ExitPermanent
)

// inputVar names the file with the input of a kind.
const inputVar = "SKEIN_INPUT"

// inputFile returns the path of the input of an attempt whose outputs have the path output.
func inputFile(output string) string { return output + ".in" }

// endFile returns the path of the file into which a boxed process writes the reason why it ended itself.
func endFile(output string) string { return output + ".end" }

// boxed reports whether the job is the process of a boxed kind.
func (j *Job) boxed() bool { return j.Kind != nil && j.Kind.Boxed }
