package trigger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// Sensor is a source of events. It runs for the triggers of the shards that its process owns. It stops when
// ctx ends, because another node owns the shards. It delivers each event at least once, and the ledger
// accepts each key once.
type Sensor interface {
	Run(ctx context.Context) error
}

// Bounds of a watch.
const (
	pollEvery     = 2 * time.Second
	rereadEvery   = 30 * time.Second
	entriesMax    = 10_000 // bounds one read of a folder
	entriesChunk  = 512
	deliveriesMax = 100 // bounds the deliveries of one trigger at a time
	lookersMax    = 8   // folders that are read at the same time, so that one unreachable file server does not block all reads
	watchedMax    = 10_000
	sensorsPage   = 1000
)

// WatchConfig holds the parts of a watch; Log, Poll and Now have defaults.
type WatchConfig struct {
	// Sensors lists the active triggers of some kinds that this process owns. It is engine.Sensors.
	Sensors func(ctx context.Context, kinds []string, after store.TriggerKey, limit int) ([]store.Trigger, error)
	// Fire delivers a file to a trigger of kind file. It is engine.Occur.
	Fire func(ctx context.Context, k store.TriggerKey, o engine.Occurrence) (engine.Occurred, error)
	// Came delivers the arrival of a file to a trigger of kind absent. The engine then calls Heard with an
	// Ended that has no workflow, and has the arrival as Finished.
	Came func(ctx context.Context, k store.TriggerKey, at dag.Micros) error
	// Past returns the instant up to which lines of a trigger's ledger may have been deleted. It is nil if no
	// lines are deleted. A file that arrived before that instant has been delivered.
	Past func(ctx context.Context, k store.TriggerKey) (dag.Micros, error)
	// Protected contains files and folders of the node. No trigger may watch them, or anything below them.
	Protected []string
	// Namespace returns the namespace of a workflow. Allowed returns an error if the rules of a namespace do not
	// let it watch a folder. Both are nil if no namespace has rules.
	Namespace func(ctx context.Context, id dag.WorkflowID) (string, error)
	Allowed   func(ctx context.Context, namespace, folder string) error
	Log       *slog.Logger
	Poll      time.Duration
	Now       func() time.Time
}

// Watch reads folders, and reports files that have arrived and no longer grow. Only a file whose entry is
// younger than the declaration has arrived, so a new trigger on a full folder fires nothing. Watch leaves the
// file in the folder, and the workflow moves or deletes it. If a file arrives while no node runs, or while
// the trigger is paused, Watch finds it afterwards, if it still exists.
type Watch struct {
	cfg     WatchConfig
	changed chan struct{}
	room    chan struct{} // lookersMax

	mu      sync.Mutex // protects following fields
	folders map[store.TriggerKey]*folder
}

var _ Sensor = (*Watch)(nil)

// WatchState is the state of a watch of one trigger, for people.
type WatchState struct {
	OK       bool
	Text     string    // the reason why the watch does not work, or a remark
	Since    time.Time // time of the last change of the state
	Settling int       // files that grow, or grew recently
}

// folder is the watch of one trigger. Only the goroutine that reads the folder uses files
// and space.
type folder struct {
	key    store.TriggerKey
	decl   *workflow.Trigger
	look   *workflow.FileWatch
	since  dag.Micros
	past   dag.Micros // WatchConfig.Past at the beginning of the watch; files contains the files that arrived later
	sum    digest     // the digest of the declaration
	busy   bool       // whether a goroutine reads the folder; protected by Watch.mu
	state  WatchState
	files  map[string]*arrival
	logged string
	space  string // the namespace; "" if it was not read yet
}

// arrival is a file that a watch has found.
type arrival struct {
	size     int64
	modified time.Time
	inode    uint64
	arrived  dag.Micros
	since    time.Time // time of its last change
	done     bool      // the file was delivered, or must not be delivered
}

// NewWatch returns a watch. Run starts it.
func NewWatch(cfg WatchConfig) *Watch {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Poll == 0 {
		cfg.Poll = pollEvery
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Watch{cfg: cfg, changed: make(chan struct{}, 1), room: make(chan struct{}, lookersMax),
		folders: map[store.TriggerKey]*folder{}}
}

// Changed makes the watch read the triggers again. It never blocks.
func (w *Watch) Changed() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// State returns the state of the watch of a trigger. It returns false if the trigger is not watched here.
func (w *Watch) State(k store.TriggerKey) (WatchState, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.folders[k]
	if f == nil {
		return WatchState{}, false
	}
	return f.state, true
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	var lookers sync.WaitGroup
	defer lookers.Wait()
	tick := time.NewTicker(w.cfg.Poll)
	defer tick.Stop()
	read := w.cfg.Now()
	w.reread(ctx)
	for turn := 0; ; turn++ {
		w.poll(ctx, &lookers, turn)
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
			read = w.cfg.Now()
			w.reread(ctx)
		case <-tick.C:
			if w.cfg.Now().Sub(read) >= rereadEvery {
				read = w.cfg.Now()
				w.reread(ctx)
			}
		}
	}
}

// reread reads the present triggers. A trigger that cannot be read keeps its last known declaration.
func (w *Watch) reread(ctx context.Context) {
	found := map[store.TriggerKey]*folder{}
	for after := (store.TriggerKey{}); ; {
		page, err := w.cfg.Sensors(ctx, []string{workflow.KindFile, workflow.KindAbsent}, after, sensorsPage)
		if err != nil {
			if ctx.Err() == nil {
				w.cfg.Log.Warn("the triggers that watch folders cannot be read", "code", "folder_triggers_unreadable", "err", err)
			}
			return
		}
		for i := range page {
			after = store.TriggerKey{Workflow: page[i].Workflow, Name: page[i].Name}
			f := w.watched(&page[i])
			if f == nil || len(found) >= watchedMax {
				continue
			}
			if w.cfg.Past != nil {
				if f.past, err = w.cfg.Past(ctx, f.key); err != nil {
					if ctx.Err() == nil {
						w.cfg.Log.Warn("the ledger of a trigger that watches a folder cannot be read", "code", "ledger_unread", "trigger", f.key.Name, "err", err)
					}
					return
				}
			}
			found[after] = f
		}
		if len(page) < sensorsPage {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, f := range found {
		if is := w.folders[k]; is != nil && is.sum == f.sum && is.since == f.since {
			found[k] = is
		}
	}
	w.folders = found
}

// watched returns the watch of a row, or nil if the row watches no folder.
func (w *Watch) watched(t *store.Trigger) *folder {
	decl, err := workflow.DecodeTrigger(t.Spec)
	if err != nil {
		w.cfg.Log.Warn("a trigger cannot be read; apply its workflow again", "code", "trigger_unreadable", "trigger", t.Name, "workflow", t.Workflow, "err", err)
		return nil
	}
	look := decl.File
	if decl.Absent != nil {
		look = decl.Absent.File
	}
	if look == nil {
		return nil
	}
	return &folder{key: store.TriggerKey{Workflow: t.Workflow, Name: t.Name}, decl: decl, look: look, since: t.Since,
		sum: sha256.Sum256(t.Spec), files: map[string]*arrival{},
		state: WatchState{OK: true, Text: "has not looked yet", Since: w.cfg.Now()}}
}

// poll starts a read of every folder that no goroutine is reading, up to the bound of concurrent reads. Each
// call begins with another folder, so that every folder is read eventually.
func (w *Watch) poll(ctx context.Context, lookers *sync.WaitGroup, turn int) {
	w.mu.Lock()
	all := make([]*folder, 0, len(w.folders))
	for _, f := range w.folders {
		if !f.busy {
			all = append(all, f)
		}
	}
	w.mu.Unlock()
	slices.SortFunc(all, func(a, b *folder) int {
		if a.key.Workflow != b.key.Workflow {
			return int(a.key.Workflow - b.key.Workflow)
		}
		return strings.Compare(a.key.Name, b.key.Name)
	})
	for i := range all {
		f := all[(i+turn)%len(all)]
		select {
		case w.room <- struct{}{}:
		case <-ctx.Done():
			return
		case <-time.After(w.cfg.Poll): // all readers are blocked
			return
		}
		w.mu.Lock()
		f.busy = true
		w.mu.Unlock()
		lookers.Go(func() {
			state := w.look(ctx, f)
			w.mu.Lock()
			if state.OK != f.state.OK || state.Text != f.state.Text {
				state.Since = w.cfg.Now()
			} else {
				state.Since = f.state.Since
			}
			f.state, f.busy = state, false
			w.mu.Unlock()
			<-w.room
		})
	}
}

// look reads a folder once and delivers the settled files.
func (w *Watch) look(ctx context.Context, f *folder) WatchState {
	seen, more, err := w.scan(ctx, f)
	if err != nil {
		text := "the folder cannot be read: " + err.Error()
		if text != f.logged { // log once for each outage
			w.cfg.Log.Warn("the folder of a trigger cannot be read; the trigger waits for it", "code", "trigger_folder_unreadable", "trigger", f.key.Name, "workflow", f.key.Workflow, "err", err)
		}
		f.logged = text
		return WatchState{Text: text}
	}
	f.logged = ""
	now := w.cfg.Now()
	f.update(seen, now)
	state := WatchState{OK: true, Text: "watches"}
	if more {
		state = WatchState{Text: fmt.Sprintf("the folder has more than %d entries, the others are not looked at: move files out of it", entriesMax)}
	}
	delivered := 0
	for _, name := range f.settled(now) {
		if ctx.Err() != nil {
			return state
		}
		if delivered++; delivered > deliveriesMax {
			break // the next read continues
		}
		if err := w.deliver(ctx, f, name, f.files[name]); err != nil {
			if ctx.Err() == nil && !errors.Is(err, errkind.ErrConflict) && !errors.Is(err, errkind.ErrNotFound) {
				w.cfg.Log.Warn("a file that arrived cannot be processed yet", "code", "file_not_taken", "trigger", f.key.Name, "workflow", f.key.Workflow, "err", err)
			}
			return WatchState{Text: "a file that arrived is not taken yet: " + err.Error(), Settling: f.settling()}
		}
		f.files[name].done = true
	}
	state.Settling = f.settling()
	return state
}

// scan reads the folder of a trigger if the rules of its namespace allow it.
func (w *Watch) scan(ctx context.Context, f *folder) (seen map[string]fs.FileInfo, more bool, err error) {
	if w.cfg.Allowed != nil {
		if f.space == "" {
			if f.space, err = w.cfg.Namespace(ctx, f.key.Workflow); err != nil {
				return nil, false, err
			}
		}
		if err := w.cfg.Allowed(ctx, f.space, f.look.Path); err != nil {
			return nil, false, err
		}
	}
	return f.scan(w.cfg.Protected)
}

// scan returns the regular files of the folder with matching names. It does not follow links, because a link
// could expose any file of the machine to a user who may only write into the folder. It skips protected
// files.
func (f *folder) scan(protected []string) (seen map[string]fs.FileInfo, more bool, err error) {
	dir, inside, err := openFolder(f.look.Path, protected)
	if err != nil {
		return nil, false, err
	}
	defer dir.Close()
	seen = map[string]fs.FileInfo{}
	for n := 0; ; {
		entries, err := dir.ReadDir(entriesChunk)
		for _, e := range entries {
			if n++; n > entriesMax {
				return seen, true, nil
			}
			if !e.Type().IsRegular() || !f.matches(e.Name()) || inside[e.Name()] {
				continue
			}
			info, err := e.Info()
			if err == nil && info.Mode().IsRegular() { // the file may be gone by now
				seen[e.Name()] = info
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return seen, false, nil
		case err != nil:
			return nil, false, err
		}
	}
}

// matches reports whether a name matches the pattern. Names that begin with a dot do not match, because such
// files are incomplete, unless the pattern begins with a dot.
func (f *folder) matches(name string) bool {
	if strings.HasPrefix(name, ".") && !strings.HasPrefix(f.look.Pattern, ".") {
		return false
	}
	if f.look.Pattern == "" {
		return true
	}
	ok, err := path.Match(f.look.Pattern, name)
	return ok && err == nil
}

// update compares the present files with those of the previous read.
func (f *folder) update(seen map[string]fs.FileInfo, now time.Time) {
	for name := range f.files {
		if seen[name] == nil {
			delete(f.files, name)
		}
	}
	for name, info := range seen {
		inode, arrived := Identity(info)
		is := f.files[name]
		if is != nil && is.size == info.Size() && is.modified.Equal(info.ModTime()) && is.inode == inode {
			continue
		}
		f.files[name] = &arrival{size: info.Size(), modified: info.ModTime(), inode: inode, arrived: arrived, since: now, done: arrived <= max(f.since, f.past)}
	}
}

// settled returns the names of the files to deliver, the oldest first.
func (f *folder) settled(now time.Time) []string {
	var names []string
	for name, a := range f.files {
		if !a.done && now.Sub(a.since) >= time.Duration(f.look.Settle) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if x, y := f.files[a].arrived, f.files[b].arrived; x != y {
			return int(min(max(x-y, -1), 1))
		}
		return strings.Compare(a, b)
	})
	return names
}

func (f *folder) settling() int {
	n := 0
	for _, a := range f.files {
		if !a.done {
			n++
		}
	}
	return n
}

// deliver delivers a file. The key of the event depends on the file, and not on the time at which it was
// found. So after a restart the same file is the same event. A rewritten file is a new event.
func (w *Watch) deliver(ctx context.Context, f *folder, name string, a *arrival) error {
	if f.decl.Kind == workflow.KindAbsent {
		return w.cfg.Came(ctx, f.key, a.arrived)
	}
	d := declared{Trigger: f.decl}
	if out, _, err := d.outside(a.arrived); err != nil || out {
		return err
	}
	full := filepath.Join(f.look.Path, name)
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d\x00%d", full, a.size, a.modified.UnixNano(), a.inode))
	event := struct {
		Path     string `json:"path"`
		Name     string `json:"name"`
		Size     int64  `json:"size"`
		Modified string `json:"modified"`
	}{full, name, a.size, a.modified.UTC().Format(time.RFC3339Nano)}
	_, err := w.cfg.Fire(ctx, f.key, engine.Occurrence{Key: "file/" + hex.EncodeToString(sum[:16]), Event: encode(event),
		Reason: store.Because("file", strings.ToValidUTF8(name, "\uFFFD"))})
	return err
}
