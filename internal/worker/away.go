//go:build linux

package worker

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ownProgram returns the path of this program for a child. It is the same program even if its file was
// replaced, except behind a fence, which hides other processes.
func ownProgram(fenced bool) (string, error) {
	if !fenced {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// furnish makes the input of a kind, and completes the command of a kind of this program.
func (a *attempt) furnish(k *Kind, cmd *command, fenced bool) (err error) {
	if a.given, err = newGiven(k.Input, a.uid, a.gid); err != nil {
		return err
	}
	if k.House {
		self, err := ownProgram(fenced)
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		cmd.argv = append([]string{self}, cmd.argv...)
	}
	return nil
}

// Pauses between two starts of a process that cannot reach the system it works on, such as a database. With a
// short patience the pauses are shorter.
const (
	awayFirst = time.Second
	awayMax   = time.Minute
	awayParts = 8
)

// away is the state of an attempt whose process cannot reach its system. The zero value is the state of every
// other attempt.
type away struct {
	since time.Time // time of the first end with ExitAway; zero if there was none
	pause time.Duration
}

// patient handles the process of a kind that has ended because it cannot reach its system. After a pause it
// starts the process again, and returns true. The pauses count against the timeout of the attempt.
func (a *attempt) patient() bool {
	k := a.job.Kind
	if k == nil || a.cause != "" || !a.status.Exited() || a.status.ExitStatus() != ExitAway {
		return false
	}
	if _, own := a.ownEnd(); !own {
		return false
	}
	patience := k.Patience
	if patience <= 0 {
		patience = PatienceDefault
	}
	now := time.Now()
	if a.away.since.IsZero() {
		a.away = away{since: now, pause: min(awayFirst, patience/awayParts)}
	} else {
		a.away.pause = min(2*a.away.pause, awayMax)
	}
	left := patience - now.Sub(a.away.since)
	if left <= 0 {
		return false
	}
	pause := min(a.away.pause*3/4+time.Duration(rand.Int64N(int64(a.away.pause)/2+1)), left)
	a.note(fmt.Sprintf("the system that the kind %s needs cannot be reached: the kind is started again in %v", k.Name, pause.Round(time.Millisecond)))
	if !a.rest(now.Add(pause)) {
		return false
	}
	return a.startAgain()
}

// note writes a line of the worker into the log of the attempt.
func (a *attempt) note(text string) {
	if a.log.size > 0 && a.log.last != '\n' {
		text = "\n" + text
	}
	a.log.write([]byte("skein: " + text + "\n"))
}

// rest waits while no process of the attempt runs. It returns false if the attempt must end.
func (a *attempt) rest(until time.Time) bool {
	fds := []unix.PollFd{{Fd: int32(a.slot.wake), Events: unix.POLLIN}}
	for {
		switch Mode(a.want.Load()) {
		case 0:
		case ModeTerm:
			a.cause = CauseStopped
		case ModeKill:
			a.cause = CauseKilled
		case modeClose:
			a.cause = CauseClosed
		default:
			a.cause = CauseLease
		}
		if a.cause != "" {
			return false
		}
		now := time.Now()
		if a.job.Timeout > 0 && !a.timedOut && now.Sub(a.began) >= a.job.Timeout {
			if a.timedOut = true; !a.job.WarnOnTimeout {
				a.cause = CauseTimeout
				return false
			}
		}
		left := until.Sub(now)
		if left <= 0 {
			return true
		}
		if a.job.Timeout > 0 && !a.timedOut {
			left = min(left, a.job.Timeout-now.Sub(a.began))
		}
		n, err := unix.Poll(fds, int((max(left, 0)+time.Millisecond-1)/time.Millisecond))
		if err == nil && n > 0 {
			a.slot.slumber()
		}
	}
}

// kept reports whether the process of a kind says that its effect is durable, although the process was told
// to end.
func (a *attempt) kept() bool {
	return a.job.Kind != nil && !a.isCommand() && a.status.Exited() && a.status.ExitStatus() == ExitKept
}

// exitCause returns the cause and the message of an attempt whose process ended with an exit code other than
// 0. If the process of a kind is not the command of the task, its last line is the message.
func (a *attempt) exitCause(how string) (cause, message string) {
	k := a.job.Kind
	if k == nil {
		return CauseExit, how + a.refused()
	}
	why, own := a.ownEnd()
	code := a.status.ExitStatus()
	cause = CauseExit
	if own {
		cause = cmp.Or(map[int]string{ExitPermanent: CausePermanent, ExitAway: CauseAway}[code], CauseExit)
	}
	if why == "" && !a.isCommand() {
		why = a.log.lastLine()
	}
	switch {
	case cause == CauseAway && !a.isCommand():
		message = fmt.Sprintf("%s: the system that the kind %s needs could not be reached for %v", how, k.Name, time.Since(a.away.since).Round(time.Second))
		if why != "" {
			message += ": " + why
		}
		return cause, message
	case why != "":
		return cause, how + ": " + why + a.refused()
	case cause == CausePermanent:
		how += ": " + k.Name + " says that a retry cannot help"
	}
	return cause, how + a.refused()
}

// ownEnd reports whether the process of a kind ended by itself rather than with its command, and returns the
// reason if it gave one.
func (a *attempt) ownEnd() (why string, own bool) {
	if !a.isCommand() {
		return "", true
	}
	text, err := readRegular(endFile(a.cmd.output), messageMax)
	return string(text), err == nil && text != nil
}
