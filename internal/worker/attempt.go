//go:build linux

package worker

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/box"
	"skein.dev/skein/internal/fence"
	"skein.dev/skein/sdk/shared/mask"
)

const (
	killGraceDefault = 10 * time.Second
	// startedAfter is the time after which the start of an attempt is reported separately from its end.
	startedAfter = time.Second
	// chunk is the number of bytes of one read from the pipe, which is the capacity of a pipe.
	chunk = 64 << 10
	// drainMax bounds the bytes that are read after the end: the largest pipe that a task may request. A process
	// outside of the tree may hold the pipe and write without end.
	drainMax = 1 << 20
)

// attempt is one execution of a job in a slot. Only its own goroutine uses its fields, except want.
type attempt struct {
	want atomic.Int32 // the highest Mode requested so far

	w    *Worker
	slot *slot
	job  *Job
	log  logFile
	cmd  *command
	// leaves is the folder of its artifacts. It is nil if the attempt has no artifacts or has not begun.
	leaves *artifact.WorkDir

	pid, pidfd, pipe int // pipe is -1 after the end of the output
	status           syscall.WaitStatus
	got, began       time.Time // the times at which the attempt got its slot and at which it forked, on the monotonic clock
	told             bool      // Config.Started was called
	timedOut         bool
	cause            string    // why the worker ends the attempt; "" if it does not
	killAt           time.Time // time at which KILL is due; set only between TERM and KILL
	cancel           func()    // cancels an HTTP request, which has no process
	result           Result
	capped           bool        // its memory is limited
	starved          bool        // the attempt failed after the kernel had killed one of its processes because of memory
	kills            int64       // number of memory kills in the tree before this attempt
	given            *os.File    // the input of a kind, in memory; nil if there is none
	outside          handleOf    // handle of work outside of the process
	masks            *mask.Set   // masks of the attempt's secrets; nil if it has none
	spec             *fence.Spec // files that the attempt may reach; nil without isolation
	boxed            bool        // its process runs in a box
	room             *box.Box    // the box; nil if it has not started, or the process has none
	closed           bool        // the box has no network
	uid              uint32      // user of the namespace; 0 if the attempt has the worker's user
	gid              uint32      // the only group of that user
	away             away        // state of a kind's process that cannot reach its system
	second           second      // the process that follows the first one of the attempt
	failed           error       // why a process of the attempt was not started again
}

// demand raises the mode and wakes the attempt. Any goroutine may call it.
func (a *attempt) demand(mode Mode) {
	for {
		old := a.want.Load()
		if int32(mode) <= old {
			return
		}
		if a.want.CompareAndSwap(old, int32(mode)) {
			break
		}
	}
	a.slot.awaken()
}

// run executes the attempt, from its slot to its Result.
func (a *attempt) run() Result {
	// The thread that forks must outlive the child, see doc.go. So this thread also waits for the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	a.result = Result{Key: a.job.Key, ExitCode: -1}
	a.masks = mask.NewSet(a.job.Secrets)
	a.log = logFile{path: LogPath(a.w.data, a.job.Key), sizeMax: a.w.logMax.Load(), mask: a.masks.NewWriter()}
	if a.job.Kind != nil && !a.job.boxed() {
		a.log.lines = &lastLine{}
	}
	if a.job.HTTP != nil {
		a.send()
	} else if err := a.start(); err != nil {
		a.result.Finished = time.Now()
		if a.settle(Failed, startCause(err), err.Error()); errors.As(err, new(roomError)) {
			a.settle(Stopped, CauseRoom, "it was not begun: "+err.Error())
		}
	} else if a.pid == 0 {
		a.result.Finished = time.Now()
		a.settleStop("before it began")
	} else {
		if k := a.job.Kind; k != nil && k.Label != "" {
			a.note(k.Label)
		}
		a.watch()
		a.end()
		for a.patient() || a.advances() {
			a.watch()
			a.end()
		}
		a.judge()
	}
	if a.leaves != nil {
		_ = a.leaves.Root.Close()
	}
	if a.given != nil {
		_ = a.given.Close()
	}
	if a.slot.folder != "" {
		if err := a.slot.clean(); err != nil {
			a.w.cfg.Log.Warn("the folder of an attempt cannot be emptied and stays; delete it by hand", a.attrs("code", "attempt_folder_left", "folder", a.slot.folder, "err", err)...)
			a.slot.dropFolder()
		}
	}
	a.hideSecrets()
	a.result.Message = oneLine(a.result.Message)
	return a.result
}

// hideSecrets removes secrets from the message. If the outputs contain a secret, it fails the attempt,
// because every reader of the run sees the outputs.
func (a *attempt) hideSecrets() {
	r := &a.result
	r.Message = a.masks.String(r.Message)
	if a.masks.HoldsJSON(r.Outputs) {
		r.Outputs = nil
		a.settle(Failed, CauseSecret, errHoldsSecret.Error())
	}
}

// start forks. If it returns nil and there is no pid, the attempt was stopped before the fork.
func (a *attempt) start() error {
	if err := a.job.Key.check(); err != nil {
		return err
	}
	if err := a.slot.open(a.w); err != nil {
		return a.noRoom(err)
	}
	a.got = time.Now()
	wall, err := a.w.wallOf(a.job)
	if err != nil {
		return err
	}
	if err := a.become(wall); err != nil {
		return err
	}
	if k := a.job.Kind; a.boxed && a.closed && k != nil && k.House && !k.Prepares {
		return fmt.Errorf("a task of kind %s needs the network, and the setting box_network of this worker is none: let another worker run it", k.Name)
	}
	cmd, err := a.prepare(wall)
	if a.want.Load() != 0 {
		return nil
	}
	if err != nil {
		return a.noRoom(err)
	}
	a.cmd, a.outside.path = cmd, cmd.handle
	if err := a.slot.own(a.uid, a.gid); err != nil {
		return fmt.Errorf("give the files of the attempt to its user: %w", err)
	}
	if wall != nil {
		spec, err := wall.spec(a.slot, a.job, cmd, a.w.toolsIn(wall))
		if err == nil {
			err = wall.ofUser(a, &spec)
		}
		if err != nil {
			return err
		}
		a.spec = &spec
	}
	if err := a.openDir(); err != nil {
		return err
	}
	a.divide()
	return a.launch()
}

// launch starts the process of a prepared attempt.
func (a *attempt) launch() error {
	if err := a.slot.open(a.w); err != nil {
		return a.noRoom(err)
	}
	err := a.fork()
	if err == unix.EBUSY || err == unix.EOPNOTSUPP || err != nil && a.slot.tree.spent() {
		// An earlier task or another program has divided or removed the slot's cgroup.
		a.slot.dropTree()
		if err := a.slot.open(a.w); err != nil {
			return err
		}
		err = a.fork()
	}
	if errors.As(err, new(*fence.EnterError)) {
		if why := a.barred(a.cmd.dir, 0o1); why != nil { // the kernel changes the directory before it applies the fence
			return why
		}
		return err
	}
	if err != nil {
		a.w.lookAgain()
		return a.explain(err)
	}
	a.slot.tree.born(a.pid, a.cmd.env[0])
	return nil
}

// noRoom marks an error of the preparation if its cause is a full disk of the data folder. If another disk
// is full, the task fails.
func (a *attempt) noRoom(err error) error {
	if diskFull(err) && a.job.Dir == "" {
		return roomError{err}
	}
	return err
}

// startCause returns the cause of an attempt that never ran.
func startCause(err error) string {
	if errors.As(err, new(inputError)) {
		return CauseInputs
	}
	return CauseStart
}

// watch follows the attempt until its main process has ended. If several events have happened when it checks,
// an end takes precedence over a stop, and a stop over a timeout.
func (a *attempt) watch() {
	fds := [3]unix.PollFd{
		{Fd: int32(a.pidfd), Events: unix.POLLIN},
		{Fd: int32(a.slot.wake), Events: unix.POLLIN},
		{Fd: int32(a.pipe), Events: unix.POLLIN},
	}
	for {
		// poll often returns EINTR, because the runtime interrupts threads. Then every condition is checked again.
		n, err := unix.Poll(fds[:], a.patience())
		if err != nil {
			n = 0
		}
		if n > 0 && fds[2].Revents != 0 {
			a.pump(fds[2].Revents)
			fds[2].Fd = int32(a.pipe)
		}
		if n > 0 && fds[0].Revents != 0 {
			return
		}
		if n > 0 && fds[1].Revents != 0 {
			a.slot.slumber()
		}
		a.obey()
		a.tick(time.Now())
	}
}

// patience returns the time until the next deadline in milliseconds, for poll. -1 means that there is no
// deadline.
func (a *attempt) patience() int {
	next := time.Duration(-1)
	consider := func(d time.Duration) {
		if d = max(d, 0); next < 0 || d < next {
			next = d
		}
	}
	ran := time.Since(a.began)
	if !a.told && a.w.cfg.Started != nil {
		consider(startedAfter - ran)
	}
	if a.job.Timeout > 0 && !a.timedOut {
		consider(a.job.Timeout - ran)
	}
	if !a.killAt.IsZero() {
		consider(time.Until(a.killAt))
	}
	if a.outside.path != "" {
		consider(time.Until(a.outside.next))
	}
	if next < 0 {
		return -1
	}
	const hour = time.Hour // the bound keeps the milliseconds within an int32
	return int((min(next, hour) + time.Millisecond - 1) / time.Millisecond)
}

// obey executes a Stop.
func (a *attempt) obey() {
	switch Mode(a.want.Load()) {
	case ModeTerm:
		if a.cause == "" {
			a.cause = CauseStopped
			a.terminate()
		}
	case ModeKill:
		a.force(CauseKilled)
	case modeClose:
		a.force(CauseClosed)
	case modeLease:
		a.force(CauseLease)
	}
}

// terminate sends TERM to the tree. CONT lets stopped processes receive it.
func (a *attempt) terminate() {
	if a.cancel != nil {
		a.cancel()
		return
	}
	grace := a.job.KillGrace
	if grace <= 0 {
		grace = killGraceDefault
	}
	a.slot.tree.signal(unix.SIGTERM)
	a.slot.tree.signal(unix.SIGCONT)
	a.killAt = time.Now().Add(grace)
}

// force kills the attempt, once for each cause. A later cause replaces an earlier one. But after a timeout
// the cause stays the timeout, even if a kill is requested during the grace period.
func (a *attempt) force(cause string) {
	if a.cause == cause {
		return
	}
	if a.cause == CauseTimeout && a.killAt.IsZero() {
		return // the timeout has already killed the attempt
	}
	if a.cause != CauseTimeout {
		a.cause = cause
	}
	a.killAt = time.Time{}
	if a.cancel != nil {
		a.cancel()
		return
	}
	a.slot.tree.kill()
}

// tick executes actions that are due.
func (a *attempt) tick(now time.Time) {
	a.seeHandle(now, false)
	ran := now.Sub(a.began)
	if !a.told && ran >= startedAfter {
		a.told = true
		if a.w.cfg.Started != nil {
			a.w.cfg.Started(a.job.Key, a.result.Started, a.result.Handle, a.result.Adopts)
		}
	}
	if a.job.Timeout > 0 && !a.timedOut && ran >= a.job.Timeout {
		a.timedOut = true
		if !a.job.WarnOnTimeout && a.cause == "" {
			a.cause = CauseTimeout
			a.terminate()
		}
	}
	if !a.killAt.IsZero() && !now.Before(a.killAt) {
		a.killAt = time.Time{}
		a.slot.tree.kill()
	}
}

// buffers are shared by the attempts of all workers that have something to read.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *[chunk]byte {
	if buf, ok := b.pool.Get().(*[chunk]byte); ok {
		return buf
	}
	return new([chunk]byte)
}

func (b *buffers) put(buf *[chunk]byte) { b.pool.Put(buf) }

// pump moves one chunk from the pipe to the log. poll has just reported that the pipe is readable or has
// ended. No other goroutine reads this pipe, so the read does not block. pump returns the number of bytes; 0
// means the end.
func (a *attempt) pump(events int16) int {
	n := 0
	if events&unix.POLLIN != 0 {
		buf := a.w.buffers.get()
		defer a.w.buffers.put(buf)
		var err error
		for {
			if n, err = unix.Read(a.pipe, buf[:]); err != unix.EINTR {
				break
			}
		}
		if n > 0 {
			a.log.write(buf[:n])
			return n
		}
	}
	_ = unix.Close(a.pipe)
	a.pipe = -1
	return 0
}

// end removes what is left of the attempt: its tree, the remaining output in the pipe, the zombie, the
// descriptors.
func (a *attempt) end() {
	a.result.Finished = time.Now()
	gone := a.slot.tree.end(endLimit)
	for {
		_, err := syscall.Wait4(a.pid, &a.status, 0, nil)
		if err != syscall.EINTR {
			break
		}
	}
	if a.room != nil {
		a.status = a.room.End(a.status)
		a.room = nil
	}
	a.w.firsts.Delete(a.pid)
	_ = unix.Close(a.pidfd)
	a.seeHandle(a.result.Finished, true)
	// Normally the pipe ends when its last writer ends. If it does not, a process outside of the tree holds
	// the pipe open.
	for read := 0; a.pipe >= 0 && read < drainMax; {
		fds := []unix.PollFd{{Fd: int32(a.pipe), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			break
		}
		read += a.pump(fds[0].Revents)
	}
	if a.pipe >= 0 {
		_ = unix.Close(a.pipe)
		a.pipe = -1
	}
	if !gone {
		a.w.cfg.Log.Error("processes of an attempt do not end on SIGKILL; look for a hung mount, or restart the machine", a.attrs("code", "processes_not_killed")...)
	}
	// A SIGKILL from outside may have killed the whole cgroup. The tree is then not usable for another
	// attempt.
	foreign := a.cause == "" && a.status.Signaled() && a.status.Signal() == syscall.SIGKILL
	a.starved = a.capped && (a.status.Signaled() || a.status.ExitStatus() != 0) &&
		a.slot.tree.starved() > a.kills // starved must be read before the tree is removed
	if !gone || foreign || a.slot.tree.spent() {
		a.slot.dropTree()
	}
}

// judge computes the result from the end of the main process and from the worker's own actions.
func (a *attempt) judge() {
	r := &a.result
	how := ""
	switch {
	case a.status.Exited():
		r.Exited, r.ExitCode = true, a.status.ExitStatus()
		how = fmt.Sprintf("exit code %d", r.ExitCode)
	case a.status.Signaled():
		r.Signal = signalName(a.status.Signal())
		how = "ended by " + r.Signal
		if a.status.CoreDump() {
			how += " (core dumped)"
		}
	}
	r.TimedOut = a.timedOut && (a.job.WarnOnTimeout || a.cause == CauseTimeout)
	switch {
	case a.kept(): // the effect is durable, and a retry would repeat it
		r.TimedOut = false
		a.succeed()
	case a.cause == CauseTimeout:
		a.settle(Failed, CauseTimeout, fmt.Sprintf("ran longer than its timeout of %v; %s", a.job.Timeout, how))
	case a.cause != "":
		a.settleStop(how)
	case a.starved:
		a.settle(Failed, CauseMemory, fmt.Sprintf("used more than its memory of %d MiB, and the kernel ended it; %s", a.job.Memory>>20, how))
	case r.Signal == "SIGKILL":
		a.settle(Failed, CauseSignal, how+", which Skein did not send: out of memory, or another process killed it")
	case r.Signal != "":
		a.settle(Failed, CauseSignal, how)
	case a.failed != nil:
		a.settle(Failed, CauseStart, a.failed.Error())
	case r.ExitCode != 0:
		cause, message := a.exitCause(how)
		a.settle(Failed, cause, message)
	default:
		a.succeed()
	}
	a.closeLog()
}

// succeed reads the outputs. If they are not valid, the attempt fails.
func (a *attempt) succeed() {
	path := a.cmd.output
	if a.slot.still = a.slot.settled(a.got); a.slot.still {
		path = "" // there is no file with outputs
	}
	outputs, err := takeOutputs(path, a.job.OutputsMax, a.job.OutputTypes, a.masks)
	if errors.Is(err, errHoldsSecret) {
		a.settle(Failed, CauseSecret, err.Error())
		return
	}
	if err != nil {
		a.settle(Failed, CauseOutput, err.Error()+a.refused())
		return
	}
	if !a.keep() {
		return
	}
	a.result.Outputs = outputs
	message := ""
	if a.timedOut {
		message = fmt.Sprintf("ran longer than its timeout of %v, which only warns", a.job.Timeout)
	}
	a.settle(Succeeded, "", message)
}

func (a *attempt) settle(state, cause, message string) {
	a.result.State, a.result.Cause, a.result.Message = state, cause, message
}

// settleStop sets the result of an attempt that was stopped.
func (a *attempt) settleStop(how string) {
	cause, sentence := a.cause, ""
	if cause == "" { // the attempt never started
		cause = map[Mode]string{ModeTerm: CauseStopped, ModeKill: CauseKilled, modeClose: CauseClosed, modeLease: CauseLease}[Mode(a.want.Load())]
	}
	switch cause {
	case CauseStopped:
		sentence = "stopped on request; "
	case CauseKilled:
		sentence = "killed on request; "
	case CauseClosed:
		sentence = "ended because the worker closed; "
	case CauseLease:
		sentence = "ended with its lease; "
	}
	a.settle(Stopped, cause, sentence+how)
}

// attrs returns the fixed attributes of a line in the node's own log.
func (a *attempt) attrs(more ...any) []any {
	return append([]any{"run", a.job.Key.RunID, "task", a.job.Key.Task, "attempt", a.job.Key.Attempt}, more...)
}

// signalName returns a name such as "SIGSEGV", or "signal 34" for signals without a name.
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(sig))
}
