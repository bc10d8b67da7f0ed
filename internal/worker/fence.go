//go:build linux

package worker

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/fence"
)

// systemRead lists files that every task may read if its user may: programs, libraries, settings of the
// system, and files of the kernel.
var systemRead = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/proc", "/sys", "/nix/store", "/gnu/store", "/snap",
	"/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf", "/mnt/wsl/resolv.conf", // targets of /etc/resolv.conf
	"/var/lib/ca-certificates", // targets of /etc/ssl
}

// systemWrite lists the files that every task may write. /dev/pts and /dev/ptmx create terminals.
var systemWrite = []string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm",
}

// etcSkein has the settings of nodes that a package installed.
const etcSkein = "/etc/skein"

// Fences describes how this machine isolates tasks. It returns an error if it cannot.
func Fences() (string, error) {
	if fence.ABI() == 0 {
		return "", fence.ErrNone
	}
	if fence.ABI() < 6 {
		return fmt.Sprintf("Landlock %d, without signals and abstract sockets", fence.ABI()), nil
	}
	return fmt.Sprintf("Landlock %d", fence.ABI()), nil
}

// wall holds the settings of one level of isolation of a worker.
type wall struct {
	level string
	shut  []string // the data folder, the paths that the worker's owner protects, and etcSkein as the last one
	home  string   // the home folder of the worker's user; "" if there is none
	uids  *uids    // the users of the tasks; nil if tasks have the worker's user
	named []string // the users of the machine that jobs may name
	// broken is the reason why this machine cannot give the level, so that no task starts. It is nil if the
	// machine can.
	broken error
	// boxed says that the level is box. closed says that boxes have no network.
	boxed, closed bool
}

// wallIn sets the levels of isolation of attempts that start later.
func (w *Worker) wallIn(said *hello) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	w.uids.mu.Lock()
	w.uids.from = said.UIDs
	w.uids.mu.Unlock()
	w.auto.Store(said.Auto)
	var all []wall
	for _, level := range Levels {
		if level != cmp.Or(said.Isolation, IsolationNone) && !slices.Contains(said.Levels, level) {
			continue
		}
		one := wall{level: level, shut: slices.Concat([]string{w.data}, said.Protected, []string{etcSkein}), home: home, boxed: level == IsolationBox, closed: said.ClosedBoxes}
		switch {
		case level == IsolationNone:
		case fence.ABI() == 0:
			one.broken = fence.ErrNone
		case level != IsolationFence:
			one.uids, one.named, one.broken = &w.uids, said.Users, w.admitUsers(level, said.UIDs)
		}
		all = append(all, one)
	}
	w.walls.Store(&all)
}

// wallOf returns the wall of a job: that of the worker's lowest level that is not below the job's level. It
// returns nil if the job is not isolated.
func (w *Worker) wallOf(job *Job) (*wall, error) {
	if job.boxed() {
		return nil, nil
	}
	if job.Isolation != "" && !slices.Contains(Levels, job.Isolation) {
		return nil, fmt.Errorf("the task needs the isolation level %s, which this version does not know: use a newer worker", job.Isolation)
	}
	walls := *w.walls.Load()
	least := job.Isolation
	if w.auto.Load() && walls[len(walls)-1].level != IsolationNone { // without a fence, the default has no effect
		least = dag.Stricter(least, job.IsolationDefault)
	}
	for i := range walls {
		switch is := &walls[i]; {
		case slices.Index(Levels, is.level) < slices.Index(Levels, least):
		case is.broken != nil:
			return nil, fmt.Errorf("this machine cannot isolate tasks as the worker promises: %w", is.broken)
		case is.level == IsolationNone:
			return nil, nil
		default:
			return is, nil
		}
	}
	return nil, fmt.Errorf("the task needs the isolation %s, and this worker does not offer it: start the worker with --isolation %s", job.Isolation, job.Isolation)
}

// admitUsers prepares the worker for tasks of other users. They may enter the folders above their working
// folder, but not list them.
func (w *Worker) admitUsers(level string, from UIDRange) error {
	if err := Offers(level, w.data, from); err != nil {
		return err
	}
	if _, groups := w.contain.(*processGroups); groups && !capable(unix.CAP_SYS_PTRACE) {
		return fmt.Errorf("the worker cannot find all processes of other users: it needs CAP_SYS_PTRACE, or cgroups (%s)", w.contain.describe())
	}
	if level == IsolationBox {
		return ProbeBox(from)
	}
	for _, folder := range []string{w.data, filepath.Join(w.data, "work"), w.lifeDir} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		info, err := os.Stat(folder)
		if err == nil {
			err = os.Chmod(folder, info.Mode().Perm()|0o011)
		}
		if err != nil {
			return fmt.Errorf("let tasks enter their working folders: %w", err)
		}
	}
	return nil
}

// unwalled returns the reason why a level of isolation cannot be given, or "".
func (w *Worker) unwalled() string {
	for _, is := range *w.walls.Load() {
		if is.broken != nil {
			return "the level " + is.level + " cannot be offered here: " + is.broken.Error()
		}
	}
	return ""
}

// private adds a private TMPDIR to base. If the task may not reach the home folder, HOME is that folder,
// too, because many programs fail if they find settings there that they may not read. Python still finds the
// packages of the user if they are among tools.
func (w *wall) private(base []string, tmp string, job *Job, tools []string) []string {
	own := make([]string, 0, len(base)+3)
	reached := w.home != "" && slices.ContainsFunc(w.folders(job), func(at string) bool { return fence.Within(w.home, at) })
	for _, kv := range base {
		if name, _, _ := strings.Cut(kv, "="); name != "TMPDIR" && (name != "HOME" || reached) {
			own = append(own, kv)
		}
	}
	if own = append(own, "TMPDIR="+tmp); reached {
		return own
	}
	if user := filepath.Join(w.home, ".local"); w.home != "" && slices.Contains(tools, filepath.Join(user, "lib")) {
		own = append(own, "PYTHONUSERBASE="+user)
	}
	return append(own, "HOME="+tmp)
}

// folders returns the paths that the workflow file names: those under the key access, and the working folder
// unless it is or contains a home folder.
func (w *wall) folders(job *Job) (paths []string) {
	if job.Dir != "" && !w.wide(job.Dir) {
		paths = append(paths, job.Dir)
	}
	if job.Access != nil {
		paths = append(append(paths, job.Access.Read...), job.Access.Write...)
	}
	return paths
}

// wide reports whether a working folder contains too many other files to grant the whole folder to a task.
func (w *wall) wide(dir string) bool {
	dir = filepath.Clean(dir)
	return dir == "/" || w.home != "" && fence.Within(w.home, dir)
}

// ofUser keeps the paths that the user of a box could reach without the box. The permissions of the folders
// above a file have no effect in a box, so the worker checks them here. ofUser leaves out folders of PATH
// that the user cannot reach; for another such path it returns an error.
func (w *wall) ofUser(a *attempt, spec *fence.Spec) error {
	if !w.boxed {
		return nil
	}
	hidden := func(path string) bool {
		real, err := filepath.EvalSymlinks(path)
		return err == nil && !fence.Within(real, a.slot.folder) && !permits(real, a.uid, a.gid, 0)
	}
	spec.System = slices.DeleteFunc(spec.System, hidden)
	for _, path := range slices.Concat(spec.Read, spec.Write) {
		if hidden(path) {
			return fmt.Errorf("user %d of namespace %s may not reach %s: change the permissions of the folders above, or put it elsewhere", a.uid, a.job.Key.Namespace, path)
		}
	}
	return nil
}

// spec returns the files that an attempt may reach. tools are those of Worker.toolsIn.
func (w *wall) spec(s *slot, job *Job, cmd *command, tools []string) (fence.Spec, error) {
	spec := fence.Spec{System: slices.Clone(systemRead), Devices: systemWrite, Own: []string{s.folder}, Shut: w.shut}
	for folder := range strings.SplitSeq(cmd.search, ":") {
		if filepath.IsAbs(folder) && !w.wide(folder) {
			spec.System = append(spec.System, folder)
		}
	}
	spec.System = append(spec.System, tools...)
	if job.Dir != "" && !w.wide(cmd.dir) {
		spec.Write = append(spec.Write, cmd.dir)
	}
	if job.Origin != "" && job.Dir != "" && !fence.Within(job.Origin, cmd.dir) && !w.wide(job.Origin) {
		spec.Read = append(spec.Read, job.Origin)
	}
	if script := job.Script; script != nil && script.File != "" {
		path := script.File
		if !filepath.IsAbs(path) {
			path = filepath.Join(cmd.dir, path)
		}
		spec.Read = append(spec.Read, path)
	}
	if k := job.Kind; k != nil && k.Folder != "" {
		spec.Given = append(spec.Given, k.Folder)
	}
	if k := job.Kind; k != nil && k.House {
		spec.Given = append(spec.Given, cmd.path)
	}
	if job.Access != nil {
		for _, path := range slices.Concat(job.Access.Read, job.Access.Write) {
			if at := slices.IndexFunc(w.shut, func(shut string) bool { return fence.Within(filepath.Clean(path), shut) }); at >= 0 {
				return spec, fmt.Errorf("access: %s is protected, like all of %s: no task may reach it; remove it from access", path, w.shut[at])
			}
		}
		spec.Read = append(spec.Read, job.Access.Read...)
		spec.Write = append(spec.Write, job.Access.Write...)
	}
	above := func(path string) bool {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		return fence.Within(etcSkein, filepath.Clean(path))
	}
	if !exists(etcSkein) && !slices.ContainsFunc(spec.Read, above) && !slices.ContainsFunc(spec.Write, above) {
		// A folder that does not exist need not be shut. To shut it, each file of /etc would get a rule of its own,
		// and a start would take 27 µs longer. If the folder is created later, only attempts that started before can
		// read it.
		spec.Shut = spec.Shut[:len(spec.Shut)-1]
	}
	return spec, nil
}

// fencesMax bounds the fences that a slot keeps. Making one takes up to half as long as starting a process.
const fencesMax = 4

// fences are the fences of a slot's latest attempts, the latest first.
type fences []keptFence

type keptFence struct {
	spec *fence.Spec
	*fence.Fence
}

// of returns a fence for the files that an attempt may reach.
func (fs *fences) of(spec *fence.Spec) (*fence.Fence, error) {
	if i := slices.IndexFunc(*fs, func(f keptFence) bool { return f.spec.Equal(spec) }); i >= 0 {
		kept := (*fs)[i]
		*fs = slices.Delete(*fs, i, i+1)
		if kept.Fresh() {
			*fs = slices.Insert(*fs, 0, kept)
			return kept.Fence, nil
		}
		kept.Close()
	}
	made, err := fence.New(*spec)
	if err != nil {
		return nil, &fence.EnterError{Err: err}
	}
	if len(*fs) == fencesMax {
		(*fs)[fencesMax-1].Close()
		*fs = (*fs)[:fencesMax-1]
	}
	*fs = slices.Insert(*fs, 0, keptFence{spec, made})
	return made, nil
}

func (fs *fences) close() {
	for _, f := range *fs {
		f.Close()
	}
	*fs = nil
}

// refusals match the output of programs when a file is refused. Each has the path in its only group. Some
// programs name the failed call after the path, as tar: "/path: Cannot open: Permission denied".
var refusals = []*regexp.Regexp{
	regexp.MustCompile(`(?m)(?:^|[\s'"` + "`" + `‘(])(/[^\s:'"` + "`" + `‘’]+)['"’` + "`" + `]?(?: for (?:reading|writing))?: (?:[A-Z][a-z ]{0,40}: )?Permission denied`),
	regexp.MustCompile(`(?m)(?:^|: |cannot create |['"` + "`" + `‘])([^/\s:'"` + "`" + `‘’][^\s:'"` + "`" + `‘’]*)['"’` + "`" + `]?: Permission denied$`),
	regexp.MustCompile(`Permission denied: ['"]([^'"]+)['"]`),              // Python
	regexp.MustCompile(`(?:open|mkdir|stat) ([^\s:]+): permission denied`), // Go
	regexp.MustCompile(`EACCES: permission denied, \w+ '([^']+)'`),         // Node.js
	regexp.MustCompile(`([^\s:]+) \(Permission denied\)`),                  // Java
	regexp.MustCompile(`Permission denied @ \w+ - ([^\s:]+)`),              // Ruby
}

// missing matches the output of programs when a file does not exist, as in a box.
var missing = []*regexp.Regexp{
	regexp.MustCompile(`(/[^\s:'"` + "`" + `‘’]+)['"’` + "`" + `]?: No such file or directory`),
	regexp.MustCompile(`No such file or directory: ['"](/[^'"]+)['"]`),
	regexp.MustCompile(`open (/[^\s:]+): no such file or directory`),
}

// named returns the paths that patterns find in an output, in its order. Relative paths are in dir.
func named(output, dir string, patterns []*regexp.Regexp) (paths []string) {
	type find struct {
		at   int
		path string
	}
	var all []find
	for _, p := range patterns {
		for _, at := range p.FindAllStringSubmatchIndex(output, -1) {
			path := output[at[2]:at[3]]
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			all = append(all, find{at[2], filepath.Clean(path)})
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].at < all[j].at })
	for _, f := range all {
		paths = append(paths, f.path)
	}
	return paths
}

// deniedMax bounds the end of a log that is searched for refused files, in bytes.
const deniedMax = 8 << 10

// refused names a file that the fence refused, according to the last output of the task, and the line that
// allows it. It returns "" if the output names none.
func (a *attempt) refused() string {
	if a.spec == nil || a.log.size == 0 {
		return ""
	}
	tail := tailOf(a.log.path, deniedMax)
	all := named(tail, a.cmd.dir, refusals)
	absent := named(tail, a.cmd.dir, missing)
	if a.boxed {
		all = append(all, absent...)
	}
	for _, path := range all {
		if why := a.refusal(path); why != "" {
			a.w.tools.Store(nil) // a program may have been installed since
			return why
		}
	}
	home := a.home()
	for _, path := range absent {
		rel, err := filepath.Rel(a.slot.tmp(), path)
		if real := filepath.Join(home, rel); err == nil && filepath.IsLocal(rel) && home != "" && !exists(path) && exists(real) {
			return fmt.Sprintf("; isolation gives the task a home folder of its own: to let it read %s, add access: {read: [%s]}, env: {HOME: %s} to the task", real, real, home)
		}
	}
	if strings.Contains(tail, `"no new privileges" flag`) { // this is the message of sudo
		return "; no isolated task gains rights by sudo: let a worker with the setting isolation: none run it"
	}
	return ""
}

// home returns the home folder of the worker's user, or "" if there is none.
func (a *attempt) home() string {
	if walls := *a.w.walls.Load(); len(walls) > 0 {
		return walls[0].home
	}
	return ""
}

// refusal returns why the fence refused a path, and the remedy. It returns "" if the fence did not refuse it.
func (a *attempt) refusal(path string) string {
	real := path
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		real = filepath.Join(folder, filepath.Base(path))
	}
	switch {
	case slices.ContainsFunc(a.spec.Shut, func(shut string) bool { return fence.Within(path, shut) || fence.Within(real, shut) }) && !a.reaches(path, a.spec.Own) && !a.reaches(path, a.spec.Given):
		return fmt.Sprintf("; %s is protected: no task may reach it", path)
	case a.uid != 0 && exists(path) && !permits(path, a.uid, a.gid, 0o4):
		return fmt.Sprintf("; user %d of namespace %s may not reach %s: change the owner or the permissions of the file", a.uid, a.job.Key.Namespace, path)
	case a.uid != 0 && !exists(path) && exists(filepath.Dir(path)) && !permits(filepath.Dir(path), a.uid, a.gid, 0o3):
		return fmt.Sprintf("; user %d of namespace %s may not make files in %s: change the owner or the permissions of the folder", a.uid, a.job.Key.Namespace, filepath.Dir(path))
	case !exists(path) && exists(filepath.Dir(path)) && unix.Access(filepath.Dir(path), unix.W_OK) == nil:
		return a.unmade(path)
	case !exists(path) || a.reaches(path, a.spec.Own) || a.reaches(path, a.spec.Devices) || a.reaches(path, a.spec.Write):
		return "" // the permissions of the file refused it
	case a.reaches(path, a.spec.System) || a.reaches(path, a.spec.Read):
		if unix.Access(path, unix.W_OK) == nil && (a.uid == 0 || permits(path, a.uid, a.gid, 0o2)) {
			return fmt.Sprintf("; isolation does not let the task change %s: add access: {write: [%s]} to the task", path, path)
		}
		return ""
	default:
		return fmt.Sprintf("; isolation does not let the task reach %s: add access: {read: [%s]} to the task, or write%s", path, path, a.elsewhere(filepath.Dir(path)))
	}
}

// unmade returns the reason why a file could not be created, or "" if the fence did not refuse it.
func (a *attempt) unmade(path string) string {
	folder, instead := filepath.Dir(path), ""
	if folder == "/tmp" || folder == "/var/tmp" {
		instead = "use $TMPDIR, a private folder, or "
	}
	if at := slices.IndexFunc(a.spec.Shut, func(shut string) bool { return fence.Within(shut, folder) && exists(shut) }); at >= 0 {
		return fmt.Sprintf("; isolation does not let the task make files in %s, because %s is in it: %suse a folder of its own", folder, a.spec.Shut[at], instead)
	}
	if a.reaches(path, a.spec.Own) || a.reaches(path, a.spec.Write) {
		return ""
	}
	return fmt.Sprintf("; isolation does not let the task make %s: %sadd access: {write: [%s]} to the task%s", path, instead, folder, a.elsewhere(folder))
}

// elsewhere returns a further remedy if a folder is a working folder that tasks cannot reach, because it is
// or contains a home folder.
func (a *attempt) elsewhere(folder string) string {
	if folder != filepath.Clean(a.cmd.dir) || a.reaches(folder, a.spec.Write) || a.job.Dir == "" {
		return ""
	}
	return ", or put the workflow file into a folder of its own, which its tasks may change"
}

func (a *attempt) reaches(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return fence.Within(path, filepath.Clean(folder)) })
}

// tailOf returns the end of a file, or "" if it cannot be read.
func tailOf(path string, most int64) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	text := make([]byte, min(info.Size(), most))
	n, _ := file.ReadAt(text, info.Size()-int64(len(text)))
	return string(text[:n])
}
