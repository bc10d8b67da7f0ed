//go:build linux

package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	logMaxDefault = 1 << 30 // bytes
	slotsPerCore  = 2
)

// Worker runs attempts. Its methods may be called from any goroutine.
type Worker struct {
	cfg     Config
	data    string                   // DataDir, absolute and without links, so that every process uses the same path
	life    string                   // identifies this process
	keepers keepers                  // by folder
	lifeDir string                   // <data>/work/<life>
	base    atomic.Pointer[[]string] // the node's variables for tasks, as entries of an environment
	shell   atomic.Pointer[shellAt]
	tools   atomic.Pointer[toolset]
	walls   atomic.Pointer[[]wall] // one for each level that the worker offers, the weakest first
	auto    atomic.Bool            // Config.IsolationAuto
	uids    uids
	null    *os.File
	logMax  atomic.Int64
	until   atomic.Int64 // end of the lease on the boot clock; 0 if there is none
	contain containment
	buffers buffers

	births sync.RWMutex // held for reading from a fork until firsts has its process
	firsts sync.Map     // pids of the attempts' first processes, until they are reaped

	mu      sync.Mutex // protects following fields
	slots   int        // number of slots made so far, ≤ cfg.Slots
	free    []*slot    // the last element was used last, so its folder and cgroup are in the caches
	live    map[ID]*attempt
	busy    int // number of running goroutines
	closing bool
	idle    chan struct{} // closed when closing and busy is 0
	closed  sync.Once
}

// New makes a worker for cfg.DataDir and finds out how processes can be contained here. It does not kill
// processes that an earlier process of the worker has left; Reap does that.
func New(cfg Config) (*Worker, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	data, err := realPath(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	// Descriptors that the node has inherited from its parent must not reach tasks. An error does no harm:
	// the call exists since Linux 5.11, and Go's own descriptors are closed on exec anyway.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("open an empty input for tasks: %w", err)
	}
	w := &Worker{
		cfg: cfg, data: data, life: newLife(), null: null,
		keepers: keepers{}, live: map[ID]*attempt{}, idle: make(chan struct{}),
	}
	w.equip(baseEnv(cfg.PassEnv))
	w.logMax.Store(cfg.LogMax)
	w.lifeDir = filepath.Join(data, "work", w.life)
	w.contain = detect(data, w.life, cfg.GroupsOnly)
	w.uids.path = filepath.Join(data, uidsName)
	w.wallIn(&hello{Isolation: cfg.Isolation, Levels: cfg.Levels, Users: cfg.Users, Protected: cfg.Protected, UIDs: cfg.UIDs, ClosedBoxes: cfg.ClosedBoxes, Auto: cfg.IsolationAuto})
	if at := w.contain.location(); at != "" {
		if err := os.WriteFile(w.lifeDir+cgroupSuffix, []byte(at), 0o600); err != nil {
			w.contain.close()
			_ = null.Close()
			return nil, fmt.Errorf("record the place of the cgroups: %w", err)
		}
	}
	return w, nil
}

// complete fills in the defaults and makes the work folder.
func (cfg *Config) complete() error {
	if cfg.DataDir == "" || cfg.Report == nil {
		return errors.New("a worker needs DataDir and Report")
	}
	if cfg.Slots <= 0 {
		cfg.Slots = slotsPerCore * runtime.NumCPU()
	}
	if cfg.LogMax <= 0 {
		cfg.LogMax = logMaxDefault
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := needPidfd(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(cfg.DataDir, "work"), 0o700); err != nil {
		return fmt.Errorf("make the work folder: %w", err)
	}
	return nil
}

// needPidfd returns an error on kernels that cannot poll the end of a process.
func needPidfd() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("a worker needs Linux 5.4 or later (pidfd): %w", err)
	}
	return unix.Close(fd)
}

func newLife() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Containment describes in one sentence how process trees are contained.
func (w *Worker) Containment() string { return w.contain.describe() }

// Start executes job and returns at once. If the attempt already runs, Start does nothing, so an assignment
// may be sent twice. After Close has returned, Start starts nothing and reports nothing.
func (w *Worker) Start(job Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing && w.busy == 0 {
		w.cfg.Log.Warn("an attempt was assigned after the worker had closed", "code", "attempt_after_close", "run", job.Key.RunID, "task", job.Key.Task)
		return
	}
	key := job.Key.ID()
	if w.live[key] != nil {
		return
	}
	switch {
	case w.closing:
		w.refuseLocked(job.Key, Stopped, CauseClosed, "the worker is closing")
		return
	case len(w.live) >= w.cfg.Slots:
		w.refuseLocked(job.Key, Failed, CauseFull, fmt.Sprintf("all %d slots of the worker are taken", w.cfg.Slots))
		return
	case len(w.free) == 0:
		w.free = append(w.free, &slot{index: w.slots, wake: -1})
		w.slots++
	}
	s := w.free[len(w.free)-1]
	if err := s.arm(); err != nil {
		w.refuseLocked(job.Key, Failed, CauseStart, "the node has no more file descriptors: "+err.Error())
		return
	}
	w.free = w.free[:len(w.free)-1]
	a := &attempt{w: w, slot: s, job: &job}
	w.live[key] = a
	w.busy++
	go func() {
		defer w.leave()
		result := a.run()
		w.release(a)
		w.cfg.Report(result)
	}()
}

// refuseLocked reports an attempt that gets no slot. It reports on a separate goroutine, because Report may
// need locks that the caller of Start holds.
func (w *Worker) refuseLocked(key Key, state, cause, message string) {
	now := time.Now()
	w.busy++
	go func() {
		defer w.leave()
		w.cfg.Report(Result{Key: key, State: state, Cause: cause, ExitCode: -1, Message: message, Finished: now})
	}()
}

// release frees the slot before the report, because the receiver of the report may use the slot at once.
func (w *Worker) release(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.live, a.job.Key.ID())
	w.free = append(w.free, a.slot)
}

// leave is called last by each goroutine.
func (w *Worker) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	if w.closing && w.busy == 0 {
		close(w.idle)
	}
}

// Stop ends an attempt. When it has ended, its Result is reported. Stop ignores unknown and ended attempts. A
// repeated call changes nothing, except that ModeKill after ModeTerm ends the grace period.
func (w *Worker) Stop(key Key, mode Mode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.live[key.ID()]; a != nil {
		a.demand(min(mode, ModeKill))
	}
}

// holds returns an error if the lease has ended. It does so even if Lapse was not called yet, for example
// because the machine was frozen.
func (w *Worker) holds() error {
	if until := w.until.Load(); until > 0 && Boot() >= time.Duration(until) {
		return errors.New("the lease of the worker has ended")
	}
	return nil
}

// Lapse kills all attempts, because the lease was not renewed. Attempts that start later may run.
func (w *Worker) Lapse() { w.demand(modeLease) }

func (w *Worker) demand(mode Mode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.live {
		a.demand(mode)
	}
}

// resize applies the settings of a hello: the number of concurrent attempts, their part of the node's
// environment, and their isolation. Running attempts keep their settings.
func (w *Worker) resize(said *hello) {
	w.equip(said.Base)
	w.wallIn(said)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cfg.Slots = said.Slots
	w.logMax.Store(said.LogMax)
}

// Running returns the keys of the attempts that have a slot, in no order.
func (w *Worker) Running() []Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := make([]Key, 0, len(w.live))
	for _, a := range w.live {
		keys = append(keys, a.job.Key)
	}
	return keys
}

// Close takes no new attempts and waits for the running ones. If ctx ends first, it kills the remaining
// attempts and reports them as stopped with CauseClosed. It returns when all goroutines have ended. An error
// means that a process hangs in the kernel.
func (w *Worker) Close(ctx context.Context) error {
	w.mu.Lock()
	if !w.closing {
		w.closing = true
		if w.busy == 0 {
			close(w.idle)
		}
	}
	w.mu.Unlock()

	select {
	case <-w.idle:
	case <-ctx.Done():
		w.demand(modeClose)
		// Twice the limit: once for the main process, and once for the rest of its tree.
		limit := time.NewTimer(2 * endLimit)
		defer limit.Stop()
		select {
		case <-w.idle:
		case <-limit.C:
			return fmt.Errorf("%d attempts do not end on SIGKILL", len(w.Running()))
		}
	}
	w.closed.Do(w.dispose)
	return nil
}

// dispose releases the resources of the worker. If something cannot be removed now, Reap of the next process
// removes it.
func (w *Worker) dispose() {
	for _, s := range w.free {
		s.close()
	}
	w.contain.close()
	_ = w.null.Close()
	if err := removeAll(w.lifeDir); err != nil {
		w.cfg.Log.Warn("the work folder cannot be removed; delete it by hand", "code", "work_folder_left", "folder", w.lifeDir, "err", err)
	}
	if at := w.contain.location(); at == "" || !exists(at) {
		_ = os.Remove(w.lifeDir + cgroupSuffix)
	}
}
