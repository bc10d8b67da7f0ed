//go:build linux

package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"skein.dev/skein/internal/fence"
)

// keptFolder is the folder in the data folder for the files that kinds keep between attempts. Below it are
// folders by kind, by namespace, and by user of the tasks. The user depends on the level of isolation.
const keptFolder = "kinds"

// keptVar names the folder for the files that the kind keeps for the namespace.
const keptVar = "SKEIN_KIND_FOLDER"

// prepareArg makes the process of a kind prepare the files that it keeps.
const prepareArg = "prepare"

// second is the second process of an attempt whose first one prepares files. The zero value is that of an
// attempt with one process, or of one whose second process has started.
type second struct {
	cmd  *command
	spec *fence.Spec // nil without isolation
}

// keptAt returns the folder for the files that the kind of the attempt keeps for the namespace, and makes it.
func (a *attempt) keptAt() (string, error) {
	at := filepath.Join(a.w.data, keptFolder)
	// The users of namespaces may enter these folders.
	for _, name := range []string{"", a.job.Kind.Name, a.job.Key.Namespace} {
		at = filepath.Join(at, name)
		if err := os.MkdirAll(at, 0o700); err != nil {
			return "", err
		}
		if err := os.Chmod(at, 0o711); err != nil {
			return "", err
		}
	}
	uid := os.Geteuid()
	if a.uid != 0 {
		uid = int(a.uid)
	}
	at = filepath.Join(at, strconv.Itoa(uid))
	if err := os.MkdirAll(at, 0o700); err != nil {
		return "", err
	}
	return at, os.Lchown(at, uid, -1)
}

// prepareFirst completes the commands of an attempt whose first process prepares files in the folder at. That
// process gets no variable of the task, because it may run code of packages.
func (a *attempt) prepareFirst(cmd *command, base []string, at string, own []string) {
	bare := *a.job
	bare.Env = nil
	first := *cmd
	first.env, _ = taskEnv(&bare, base, cmd.output, own...)
	first.argv = append(slices.Clone(cmd.argv), prepareArg)
	cmd.first, cmd.kept = &first, at
}

// divide makes the process that starts now the first one of the attempt. Only this process may write the
// folder of the kept files. It may write no file of the task, except in the folder of the attempt.
func (a *attempt) divide() {
	if a.cmd.first == nil {
		return
	}
	a.second.cmd, a.cmd = a.cmd, a.cmd.first
	if a.spec == nil {
		return
	}
	now, later := *a.spec, *a.spec
	later.Given = append(slices.Clone(later.Given), a.second.cmd.kept)
	now.Read, now.Write = slices.Concat(now.Read, now.Write), nil
	now.Own = append(slices.Clone(now.Own), a.second.cmd.kept)
	a.spec, a.second.spec = &now, &later
}

// advances starts the second process of an attempt whose first one has prepared the files.
func (a *attempt) advances() bool {
	if a.second.cmd == nil || a.cause != "" || !a.status.Exited() || a.status.ExitStatus() != 0 {
		return false
	}
	a.cmd, a.spec, a.second = a.second.cmd, a.second.spec, second{}
	return a.startAgain()
}

// startAgain starts the process of the command. The timeout covers all processes of the attempt together.
func (a *attempt) startAgain() bool {
	_ = os.Remove(a.cmd.output) // the next process must not inherit the outputs of this one
	_ = os.Remove(endFile(a.cmd.output))
	began := a.result.Started
	if err := a.launch(); err != nil {
		a.failed = err
		return false
	}
	a.began, a.result.Started = began, began
	return true
}

// isCommand reports whether the process of a kind is the command of the task. Then its exit code is that of
// the command, unless the process has written why it ended itself: see endFile.
func (a *attempt) isCommand() bool {
	k := a.job.Kind
	return k != nil && (k.Boxed || k.Prepares && a.second.cmd == nil)
}

// furnishKind completes the command of a kind. wall and base are those of prepare, and own holds the
// variables of Skein for the attempt.
func (a *attempt) furnishKind(cmd *command, wall *wall, base, own []string) error {
	k := a.job.Kind
	if k == nil {
		return nil
	}
	if err := a.furnish(k, cmd, wall != nil); err != nil || !k.Prepares {
		return err
	}
	at, err := a.keptAt()
	if err != nil {
		return fmt.Errorf("make the folder of kind %s: %w", k.Name, err)
	}
	own = append(own, keptVar+"="+at)
	cmd.env, _ = taskEnv(a.job, base, cmd.output, own...)
	a.prepareFirst(cmd, base, at, own)
	return nil
}
