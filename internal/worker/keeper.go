//go:build linux

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keeperVar marks the environment of a keeper; its value is the data folder.
const keeperVar = "SKEIN_KEEPER"

const (
	// tendEvery is the interval at which a keeper with attempts checks the lease and the orphans. Go's timers
	// do not count the sleep of a machine, so without this check a lease could end unnoticed during a sleep.
	tendEvery = 250 * time.Millisecond
	// linesMax bounds the lines that wait for the worker.
	linesMax = 1000
	// predecessorMax bounds how long an earlier keeper may take to end by itself.
	predecessorMax = 2 * time.Second
	// keeperGC is the percentage of garbage that triggers a collection, and allows a few MiB of garbage. A
	// keeper has so little live memory that the default would make the collector run all the time: at 700
	// tasks a second it took a fifth of a keeper's processor time.
	keeperGC = 400
)

// keeper holds the attempts of a data folder. The lock ensures that each folder has only one keeper. Its
// worker may end and another one may connect. Its worker is the process with the newest connection that has
// proven that it holds the data folder.
type keeper struct {
	data  string
	work  string        // <data>/work
	lease time.Duration // the longest time from a renewal to the end of the lease; the present lease ends at until
	log   *slog.Logger
	w     *Worker
	over  chan struct{} // closed when the keeper ends
	once  sync.Once
	// holds identifies the lock file of the data folder. The process that started the keeper shows that file
	// before the keeper accepts any connection.
	holds    deed
	greeters greeters

	mu      sync.Mutex // protects following fields
	journal *journal
	// until is the end of the lease, on the boot clock. Invariant: at until every attempt is killed (expire).
	until   time.Duration
	renewed bool // a renewal has set until; the first renewal applies even if it ends before the initial lease
	lapsed  bool // the lease has ended, and the running attempts were killed
	running map[ID]*Held
	begun   begun    // Invariant: an attempt in begun is not started again
	parked  []parcel // jobs that wait for a renewal before they start
	conn    *stream  // the worker's connection; nil if there is none
	met     bool     // a worker has connected before
	behind  bool     // an end could not be written into the journal
	out     news     // messages to be sent
	wake    chan struct{}
	// gathering is true while tell delays ends in order to send several together. During that time no end
	// wakes tell, because waking it costs waking a thread.
	gathering bool
}

// KeeperMain is the main function of a keeper process, and returns its exit code. The first extra file, if
// there is one, is the connection of the worker that started it.
func KeeperMain(args []string) int {
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTTOU)
	debug.SetGCPercent(keeperGC)
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2 * runtime.NumCPU()) // see main in cmd/skein
	}
	set := flag.NewFlagSet("keeper", flag.ContinueOnError)
	lease := set.Duration("lease", LeaseDefault, "how long attempts outlive the last renewal")
	groups := set.Bool("groups", false, "use no cgroups")
	if err := set.Parse(args); err != nil {
		return 2
	}
	data := set.Arg(0)
	if set.NArg() != 1 || os.Getenv(keeperVar) != data || *lease <= 0 {
		fmt.Fprintln(os.Stderr, "a keeper is started by skein itself; start `skein server`")
		return 2
	}
	k := &keeper{data: data, work: filepath.Join(data, "work"), lease: *lease, over: make(chan struct{}),
		until: Boot() + *lease, running: map[ID]*Held{}, begun: newBegun(), wake: make(chan struct{}, 1)}
	k.log = slog.New(&lineHandler{k: k})
	err := k.run(*groups)
	if errors.Is(err, errAbandoned) { // this is not an error: the keeper is no longer needed
		fmt.Fprintln(os.Stderr, err)
		return 0
	}
	if err != nil {
		k.log.Error("the keeper has failed and ends; its attempts run again", "code", "keeper_failed", "err", err)
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (k *keeper) run(groups bool) error {
	if err := adoptOrphans(); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	lock, err := k.takeLock()
	if err != nil {
		return err
	}
	defer lock.Close()
	var damage error
	if k.journal, damage, err = openJournal(filepath.Join(k.work, keeperJournal)); err != nil {
		return err
	}
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.journal.close()
	}()
	if damage != nil {
		k.log.Error("the keeper's journal is damaged; attempts without a recorded end count as lost, and their tasks run again", "code", "journal_damaged", "err", damage)
	}
	if k.w, err = New(Config{DataDir: k.data, Report: k.told, Started: k.started, GroupsOnly: groups, Log: k.log}); err != nil {
		return err
	}
	k.w.until.Store(int64(k.until))
	// When the worker gets the list of attempts, no process of an earlier keeper may run, because the worker
	// starts those attempts again that are not in the list.
	for {
		killed, err := k.w.Reap(context.Background(), nil)
		if killed > 0 {
			k.log.Info("processes of an earlier keeper were killed", "code", "processes_killed", "processes", killed)
		}
		if err == nil {
			break
		}
		k.log.Error("processes of an earlier keeper do not end; the keeper tries to kill them again", "code", "processes_not_killed", "err", err)
	}
	listener, err := listenIn(k.work)
	if err != nil {
		return err
	}
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	first := make(chan struct{})
	go k.first(first)
	go func() {
		<-first
		k.accept(listener)
	}()
	go k.tend(terminate)
	<-k.over
	_ = listener.Close()
	_ = os.Remove(filepath.Join(k.work, keeperSocket))
	now, cancel := context.WithCancel(context.Background())
	cancel()
	return k.w.Close(now)
}

// lockHolder is the content of the lock file.
type lockHolder struct {
	PID int `json:"pid"`
}

// errAbandoned says that the process that started this keeper has ended, or no longer wants this keeper.
var errAbandoned = errors.New("the worker that started this keeper has gone; the keeper ends, because it holds nothing yet")

// abandoned reports whether the other side of the inherited connection is closed.
func abandoned() bool {
	fds := []unix.PollFd{{Fd: firstFile, Events: unix.POLLRDHUP}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLHUP|unix.POLLRDHUP) != 0
}

// takeLock makes this process the keeper of the data folder. It kills an earlier keeper that does not end by
// itself. This is safe, because the process that starts a keeper holds the data folder, and has found no
// keeper that answers. If the process that started this keeper has ended, takeLock returns errAbandoned. In
// this case another process may hold the data folder now, and the keeper of that process must not be killed.
func (k *keeper) takeLock() (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(k.work, keeperLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the keeper's place: %w", err)
	}
	var scan procScan
	// the release of a lock cannot be awaited, so the loop tries again
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if abandoned() {
			err = errAbandoned
			break
		}
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		if time.Since(began) < predecessorMax {
			continue
		}
		text := make([]byte, 100)
		n, _ := lock.ReadAt(text, 0)
		var holder lockHolder
		_ = json.Unmarshal(text[:n], &holder) // if the text is incomplete, there is no pid
		pid := holder.PID
		if pid > 1 && pid != os.Getpid() && signalIf(pid, unix.SIGKILL, func() bool { return scan.has(pid, keeperVar+"="+k.data) }) {
			k.log.Warn("an earlier keeper did not answer and was killed", "code", "keeper_silent", "pid", pid)
		}
		if time.Since(began) > greetMax {
			break
		}
	}
	if err == nil {
		if err = lock.Truncate(0); err == nil {
			text, _ := json.Marshal(lockHolder{os.Getpid()})
			_, err = lock.WriteAt(append(text, '\n'), 0)
		}
	}
	if errors.Is(err, errAbandoned) {
		return nil, errors.Join(err, lock.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the keeper's place: %w", err), lock.Close())
	}
	return lock, nil
}

// listenIn listens on the socket in a folder. It uses the folder's descriptor, because the path of a socket
// is limited to 108 bytes, and the path of a data folder may be longer.
func listenIn(folder string) (*net.UnixListener, error) {
	_ = os.Remove(filepath.Join(folder, keeperSocket)) // the socket is that of an earlier keeper, because this keeper has the lock
	l, err := viaFolder(folder, func(path string) (*net.UnixListener, error) {
		return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	})
	if err != nil {
		return nil, fmt.Errorf("listen for the worker: %w", err)
	}
	l.SetUnlinkOnClose(false)
	return l, os.Chmod(filepath.Join(folder, keeperSocket), 0o600)
}

func viaFolder[T any](folder string, use func(path string) (T, error)) (T, error) {
	fd, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		var none T
		return none, err
	}
	defer unix.Close(fd)
	return use(fmt.Sprintf("/proc/self/fd/%d/%s", fd, keeperSocket))
}

// tend kills the attempts when the lease ends, and ends the keeper when it has no work left.
func (k *keeper) tend(terminate <-chan os.Signal) {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	for {
		select {
		case <-k.over:
			return
		case <-terminate:
			k.finish()
			return
		case <-tick.C:
		}
		k.mu.Lock()
		k.expire()
		idle := k.conn == nil && len(k.running) == 0 && (k.lapsed || k.met && !k.behind)
		k.mu.Unlock()
		k.w.bury()
		if idle {
			k.finish() // the remaining ends are in the journal
			return
		}
	}
}

// expire kills all attempts if the lease has ended. It must be called before any other event is handled, so
// that a late renewal has no effect.
func (k *keeper) expire() {
	if k.lapsed || Boot() < k.until {
		return
	}
	k.lapsed = true
	if n := len(k.running); n > 0 {
		k.log.Warn("the lease of the keeper has ended, because no server answered; the keeper kills its attempts", "code", "keeper_lease_ended", "attempts", n, "lease", k.lease.String())
	}
	k.w.Lapse()
}

func (k *keeper) finish() { k.once.Do(func() { close(k.over) }) }

// told receives the ends of attempts. The goroutines of the attempts call it.
func (k *keeper) told(rs ...Result) {
	for i := range rs {
		k.ended(rs[i])
	}
}

func (k *keeper) ended(r Result) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.running, r.Key.ID())
	if r.Cause != CauseClosed { // the result of such an attempt is unknown, so the attempt counts as never run
		if err := k.journal.add(&entry{Result: &r}); err != nil {
			k.behind = true
			k.log.Error("the end of an attempt cannot be written to the journal, so a crash of the keeper would lose it; repair the disk of the data folder", "code", "journal_unwritable", "err", err)
		}
	}
	k.out.Results = append(k.out.Results, r)
	k.rouse()
}

func (k *keeper) started(key Key, at time.Time, handle string, adopts bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.running[key.ID()]; h != nil {
		h.Started, h.Handle, h.Adopts = at, handle, adopts
		k.out.Started = append(k.out.Started, *h)
		k.rouse()
	}
}

// rouse wakes tell, which sends the news. If no worker is connected, it drops the news, because the next
// worker gets all of it in the welcome.
func (k *keeper) rouse() {
	if k.conn == nil {
		k.out = news{Lines: k.out.Lines}
		return
	}
	if k.gathering && k.gathers() {
		return // tell will check k.gathering itself
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// serve handles a worker until it disconnects or another one connects.
func (k *keeper) serve(conn *net.UnixConn, proves func(shown *os.File) error) {
	s := newStream(conn, orderMax)
	defer conn.Close()
	said := k.meet(s, proves)
	if said == nil {
		return
	}
	gone := make(chan struct{})
	defer func() { <-gone }()
	k.mu.Lock()
	if k.conn != nil {
		_ = k.conn.conn.Close()
	}
	k.expire()
	k.w.resize(said)
	k.conn, k.met, k.parked = s, true, nil // a job that has not started is lost with the worker that sent it
	k.out = news{Welcome: k.welcome(), Lines: k.out.Lines}
	k.rouse()
	k.mu.Unlock()
	go func() {
		defer close(gone)
		k.tell(s)
	}()
	for {
		var o order
		if err := s.read(&o); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				k.log.Warn("the keeper has lost the connection to its worker", "code", "keeper_disconnected", "err", err)
			}
			break
		}
		if !k.obey(s, &o) {
			break
		}
	}
	k.mu.Lock()
	if k.conn == s {
		k.conn, k.out = nil, news{}
	}
	k.mu.Unlock()
	_ = conn.Close()
	select {
	case k.wake <- struct{}{}: // tell notices it
	default:
	}
}

func (k *keeper) welcome() *welcome {
	w := &welcome{Tag: k.journal.tag, Containment: k.w.Containment(), Left: k.until - Boot(), Ended: k.journal.ended(), Rebases: true, Isolates: true, Levels: Levels, Chooses: true, Users: true, Unwalled: k.w.unwalled(), Masks: true, Kinds: true, Handles: true}
	for _, h := range k.running {
		w.Running = append(w.Running, *h)
	}
	return w
}

// obey executes an order of the worker. It returns false if another worker has connected meanwhile.
func (k *keeper) obey(from *stream, o *order) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn != from {
		return false
	}
	k.expire()
	if now := Boot(); o.Renew > max(k.until, now) || o.Renew > 0 && !k.renewed {
		k.until, k.lapsed, k.renewed = min(o.Renew, now+k.lease), false, true
		k.w.until.Store(int64(k.until))
		k.expire()
	}
	if o.Tag != nil || len(o.Taken) > 0 {
		if err := k.journal.add(&entry{Tag: o.Tag, Taken: o.Taken}); err != nil {
			k.log.Warn("the journal of the keeper is behind; look for a slow or full disk", "code", "journal_behind", "err", err)
		}
	}
	if o.Release {
		k.release()
	}
	if o.Base != nil {
		k.w.equip(o.Base)
	}
	jobs := append(k.parked, o.Jobs...)
	k.parked = nil
	for i := range jobs {
		k.begin(&jobs[i])
	}
	for _, s := range o.Stops {
		k.unpark(func(id ID) bool { return id == s.Key.ID() }, map[Mode]string{ModeTerm: CauseStopped, ModeKill: CauseKilled}[s.Mode])
		k.w.Stop(s.Key, s.Mode)
	}
	if o.Kill {
		k.unpark(func(ID) bool { return true }, CauseClosed)
		k.w.demand(modeClose)
	}
	if o.Ping != 0 {
		k.out.Pong = o.Ping
		k.rouse()
	}
	if o.End {
		k.finish()
	}
	return true
}

// unpark drops the waiting jobs for which the function which returns true, and reports them with the cause.
func (k *keeper) unpark(which func(ID) bool, cause string) {
	k.parked = slices.DeleteFunc(k.parked, func(p parcel) bool {
		gone := which(p.Job.Key.ID())
		if gone {
			k.out.Results = append(k.out.Results, Result{Key: p.Job.Key, State: Stopped, Cause: cause, ExitCode: -1, Message: "stopped before it began", Finished: time.Now()})
			k.rouse()
		}
		return gone
	})
}

// begin starts a job, unless it is known.
func (k *keeper) begin(p *parcel) {
	id := p.Job.Key.ID()
	if r, known := k.journal.untaken[id]; known {
		k.out.Results = append(k.out.Results, *r.Result)
		k.rouse()
		return
	}
	if k.running[id] != nil {
		return
	}
	if k.begun.has(id) { // the end was acknowledged, but the worker was killed before it knew that
		k.out.Results = append(k.out.Results, Result{Key: p.Job.Key, State: Stopped, Cause: CauseLost, ExitCode: -1,
			Message: "it was run, and its end was taken before", Finished: time.Now()})
		k.rouse()
		return
	}
	if k.lapsed || k.journal.full() { // a refused job would be sent again at once, so it waits
		k.parked = append(k.parked, *p)
		return
	}
	job := p.Job
	if p.Fresh {
		files := p.Files
		job.Files = func() ([]File, error) { return files, nil }
	}
	k.running[id] = &Held{Key: job.Key, CPU: job.CPU, Memory: job.Memory}
	k.begun.add(id)
	k.w.Start(job)
}

// release kills all attempts and forgets all results, without reports.
func (k *keeper) release() {
	var ids []ID
	for id := range k.journal.untaken {
		ids = append(ids, id)
	}
	none := ""
	_ = k.journal.add(&entry{Taken: ids})
	_ = k.journal.add(&entry{Tag: &none})
	k.w.demand(modeClose)
}

// lineHandler sends log lines to the worker, or to stderr if no worker is connected.
type lineHandler struct {
	k     *keeper
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

// Handle implements slog.Handler. It may be called while the keeper is locked, so it sends on a separate
// goroutine.
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	l := line{Level: int(r.Level), Text: r.Message}
	add := func(a slog.Attr) bool {
		l.Attrs = append(l.Attrs, a.Key, a.Value.String())
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	go func() {
		h.k.mu.Lock()
		defer h.k.mu.Unlock()
		if h.k.conn == nil {
			fmt.Fprintln(os.Stderr, r.Time.UTC().Format(time.RFC3339), slog.Level(l.Level), l.Text, l.Attrs)
		}
		if len(h.k.out.Lines) < linesMax {
			h.k.out.Lines = append(h.k.out.Lines, l)
			h.k.rouse()
		}
	}()
	return nil
}

// WithAttrs implements slog.Handler.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &lineHandler{k: h.k, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup implements slog.Handler. The keeper's log has no groups.
func (h *lineHandler) WithGroup(string) slog.Handler { return h }
