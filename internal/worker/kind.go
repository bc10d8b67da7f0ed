package worker

import "time"

// Kind makes an attempt the process of a kind. The process gets its input in a file in memory, which ends
// with the processes that have it open. Some of its exit codes have a meaning that those of a command do not
// have: see ExitAway and ExitPermanent.
type Kind struct {
	Name string // for people
	// Label is the first line of the log. It records the version of an extension. "" means that there is no
	// such line.
	Label string
	// House says that the kind is a part of this program, which runs it as `kind NAME`. Job.Argv then
	// contains only the arguments after that.
	House bool
	// Release says that the process does not do the work of a task, but releases the handle that its input
	// contains.
	Release bool
	Folder  string // folder of the extension, which the process may read and execute; "" if there is none
	Input   []byte // content of the file that SKEIN_INPUT names; it may contain secrets
	// Patience bounds how long the process is started again after ExitAway. 0 means PatienceDefault.
	Patience time.Duration
	// Boxed says that the process itself isolates the command of the task, for example in a container. The
	// process gets no fence, because a fence would prevent it from making the container. Its exit code is
	// that of the command, unless the process has written why it ended itself: see endFile.
	Boxed bool
	// Prepares means that the kind keeps files of the namespace, and that the attempt has two processes. The
	// first one has the last argument `prepare`. It may write the kept files, and no file of the task. The
	// second one may only read the kept files. It counts as the command of the task, and runs behind the
	// fence.
	Prepares bool
}

// Exit codes of a kind's process, in addition to 0 for success. Any other code is a failure.
const (
	ExitAway      = 75 // a system that the process needs cannot be reached
	ExitPermanent = 78 // failed, and a retry cannot help
	ExitKept      = 79 // done although the attempt had to end; the effect is durable
)

// PatienceDefault is the default of Kind.Patience.
const PatienceDefault = 10 * time.Minute

// Causes of the ends of such attempts.
const (
	CauseAway      = "away"      // failed: the system could not be reached during the whole patience
	CausePermanent = "permanent" // failed: exit code ExitPermanent
)

// inputVar names the file with the input of a kind. The process and its children inherit the file as the
// descriptor fence.Given. Each open of inputPath begins at the start of the file.
const (
	inputVar  = "SKEIN_INPUT"
	inputPath = "/proc/self/fd/5"
)

// endFile returns the path of the file into which a boxed process writes the reason why it ended itself.
func endFile(output string) string { return output + ".end" }

// boxed reports whether the job is the process of a boxed kind.
func (j *Job) boxed() bool { return j.Kind != nil && j.Kind.Boxed }
