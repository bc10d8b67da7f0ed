//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	api "skein.dev/skein/sdk/api/v1"
)

// refusalBytesMax is the memory that the refusal of a file may take. The test binary with the race detector
// is a large program by itself.
const refusalBytesMax = 512 << 20

// TestBadFiles: every invalid workflow file is refused with the place of the error and the right exit code,
// and this takes a bounded amount of memory.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const million = 1_000_000
	rep := strings.Repeat
	valid := "tasks: {a: {run: 'true'}}\n"
	bomb := "name: x\nenv:\n  a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("  a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(rep(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	var cycle strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&cycle, "  t%d: {run: 'true', needs: t%d}\n", i, (i+1)%50_000)
	}
	for name, f := range map[string]struct {
		content string
		says    []string
	}{
		"empty":        {"", []string{":1:1: the file is empty"}},
		"blank":        {"\n\n   \n", []string{"the file is empty"}},
		"comment":      {"# nothing\n", []string{"the file is empty"}},
		"binary":       {"\x7fELF\x02\x01\x01\x00\x00\xff", []string{"binary"}},
		"latin1":       {"name: caf\xe9\n" + valid, []string{"not UTF-8"}},
		"utf16":        {"\xff\xfen\x00a\x00", []string{"UTF-16"}},
		"control":      {"name: x\x1b[31m\n" + valid, []string{"U+001B"}},
		"list":         {"- a\n- b\n", []string{":1:"}},
		"text":         {"hello\n", []string{":1:"}},
		"no tasks":     {"name: x\n", []string{"tasks"}},
		"empty tasks":  {"name: x\ntasks: {}\n", []string{"tasks"}},
		"null tasks":   {"name: x\ntasks:\n", []string{"tasks"}},
		"alias bomb":   {bomb + valid, []string{":3:"}},
		"alias cycle":  {"name: x\nenv: &a\n  b: *a\n" + valid, []string{":3:"}},
		"deep list":    {"name: x\nenv: " + rep("[", million) + rep("]", million) + "\n" + valid, []string{":2:1:", "too deep"}},
		"deep mapping": {"name: x\nenv: " + rep("{a: ", million/4) + rep("}", million/4) + "\n" + valid, []string{":2:1:", "too deep"}},
		"deep dashes":  {"name: x\nenv:\n" + rep("- ", million) + "a\n", []string{"too deep"}},
		"deep JSON":    {`{"name":"x","env":` + rep("[", million) + rep("]", million) + "}", []string{"nested more than"}},
		"deep keys":    {rep("? ", million), []string{"too deep"}},
		"deep colons":  {rep(": ", million), []string{"too deep"}},
		"deep blocks":  {"name: x\n" + blocks(1000) + valid, []string{"nested more than"}},
		"deep if":      {"name: x\ntasks:\n  a: {run: 'true', if: '" + rep("(", million) + "true" + rep(")", million) + "'}\n", []string{"longer than"}},
		"nested if":    {"name: x\ntasks:\n  a: {run: 'true', if: '" + rep("(", 1900) + "true" + rep(")", 1900) + "'}\n", []string{":3:"}},
		"one line":     {"name: x\ntasks:\n  a: {run: '" + rep("x", 5*million) + "'}\n", []string{"larger than 2.0 MiB"}},
		"open quote":   {"name: \"" + rep("\n", million), []string{":1:7:"}},
		"documents":    {rep("---\nname: x\n"+valid, 1100), []string{"documents"}},
		"twice":        {"name: x\n" + valid + "---\nname: x\n" + valid, []string{"twice"}},
		"dup key":      {"name: x\nname: y\n" + valid, []string{":2:1:", "name"}},
		"dup task":     {"name: x\ntasks:\n  a: {run: 'true'}\n  a: {run: 'true'}\n", []string{":4:3:"}},
		"dup inner":    {"name: x\ntasks:\n  a: {run: 'true', run: 'false'}\n", []string{":3:"}},
		"merge":        {"name: x\ntasks:\n  a: &a {run: 'true'}\n  b: {<<: *a}\n", []string{"merge keys"}},
		"tag":          {"name: !!binary eA==\n" + valid, []string{":1:"}},
		"cycle":        {"name: x\ntasks:\n  a: {run: x, needs: b}\n  b: {run: x, needs: a}\n", []string{"a → b → a"}},
		"self":         {"name: x\ntasks:\n  a: {run: x, needs: a}\n", []string{":3:"}},
		"great cycle":  {"name: x\ntasks:\n" + cycle.String(), []string{"t0 → t1", "more) →"}},
		"unknown need": {"name: x\ntasks:\n  a: {run: x, needs: [nobody]}\n", []string{`"nobody"`}},
		"unknown key":  {"name: x\ntasks:\n  a: {rum: 'true'}\n", []string{`unknown key "rum"`, "run"}},
		"splitter":     {"name: x\nsplitter: mine\ntasks:\n  a: {run: x}\n", []string{":3:1:", "makes its tasks"}},
		"later":        {"name: x\nalerts: [{on: failed, to: ops, repeat: 4h}]\ntasks:\n  a: {run: x}\n", []string{"alerts", "not supported yet"}},
		"types":        {"name: [x]\ntasks:\n  a: {run: 'true', timeout: {}, retry: many}\n", []string{":1:", ":3:", "timeout", "retry"}},
		"name":         {"name: ../../etc/passwd\n" + valid, []string{":1:7:", "name"}},
		"unicode name": {"name: ünïcode\n" + valid, []string{":1:7:"}},
		"task names":   {"name: x\ntasks:\n  ../a: {run: x}\n  /b: {run: x}\n  ..: {run: x}\n  \"c\\0\": {run: x}\n  ď: {run: x}\n  e.0: {run: x}\n", []string{":3:3:", ":4:3:", ":5:3:", ":6:3:", ":7:3:", ":8:3:"}},
		"long name":    {"name: x\ntasks:\n  " + rep("a", 101) + ": {run: x}\n", []string{":3:3:"}},
		"namespace":    {"name: x\nnamespace: a/b\n" + valid, []string{":2:12:"}},
		"injection":    {"name: x\nparams: {p: {type: string}}\ntasks:\n  a: {run: 'echo ${{ params.p }}'}\n", []string{":4:", "env"}},
		"zero env":     {"name: x\nenv: {A: \"b\\0c\"}\n" + valid, []string{":2:"}},
		"env name":     {"name: x\nenv: {\"A=B\": c}\n" + valid, []string{":2:"}},
		"our env":      {"name: x\nenv: {SKEIN_TOKEN: \"7\"}\n" + valid, []string{"SKEIN_"}},
		"duration":     {"name: x\ntasks:\n  a: {run: x, timeout: 99999999999h}\n", []string{":3:"}},
		"negative":     {"name: x\ntasks:\n  a: {run: x, timeout: -1s, retry: {max: -1}}\n", []string{":3:"}},
		"files out":    {"name: x\nfiles: [../secret]\n" + valid, []string{":2:", "inside the workflow's folder"}},
		"script out":   {"name: x\ntasks:\n  a: {run: {file: ../../bin/sh}}\n", []string{":3:"}},
		"script gone":  {"name: x\ntasks:\n  a: {run: {file: ./gone.sh}}\n", []string{":3:", "gone.sh"}},
		"many faults":  {"name: x\ntasks:\n" + faulty(30_000), []string{`unknown key "rum"`}},
		"huge":         {"name: x\ntasks:\n" + rep("  # nothing here\n", 17<<20/17), []string{"larger than 16 MiB"}},
	} {
		path := w.write("bad.yaml", f.content)
		o := w.skein("validate", path)
		w.expect(o, exitInvalid, append([]string{"bad.yaml:"}, f.says...), []string{name})
		if o.residentMax > refusalBytesMax || len(o.err) > 256<<10 {
			t.Errorf("%s: took %d MiB, said %d bytes", name, o.residentMax>>20, len(o.err))
		}
	}
}

// blocks returns n nested mappings.
func blocks(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func faulty(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  t%d: {rum: 'true'}\n", i)
	}
	return b.String()
}

// TestBadPlaces: the exit code for a file that cannot be read is 3 (not found), whatever exists in its place.
// A file of 100 MB is refused before it is read.
func TestBadPlaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	valid := w.workflow("valid", "  a: {run: 'true'}\n")
	for _, verb := range []string{"validate", "run"} {
		w.refused(exitNotFound, []string{"gone.yaml", "no such file"}, verb, "./gone.yaml")
		w.refused(exitNotFound, []string{"is a folder"}, verb, w.dir+"/")
		w.refused(exitNotFound, []string{"cannot be read"}, verb, valid+"/below")
		w.refused(exitNotFound, []string{"cannot be read"}, verb, w.dir+"/"+strings.Repeat("x", 300)+".yaml")
	}
	big := w.write("big.yaml", "")
	if err := os.Truncate(big, 100<<20); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{big, "/dev/zero"} {
		o := w.refused(exitInvalid, []string{":1:1: the file is larger than 16 MiB"}, "validate", path)
		if o.residentMax > refusalBytesMax {
			t.Errorf("%s took %d MiB", path, o.residentMax>>20)
		}
	}
	// A link inside the folder that leads out of the folder is not followed, neither for a script nor for a file.
	w.write("secret", "#!/bin/sh\n")
	if err := os.Mkdir(filepath.Join(w.dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"../secret", filepath.Join(w.dir, "secret"), "/etc/passwd", "loop"} {
		link := filepath.Join(w.dir, "in", "loop")
		_ = os.Remove(link)
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		w.refused(exitInvalid, []string{"loop"}, "validate", w.write("in/a.yaml", "name: a\ntasks: {a: {run: {file: ./loop}}}\n"))
		w.refused(exitInvalid, []string{"loop"}, "run", w.write("in/b.yaml", "name: b\nfiles: [loop]\ntasks: {a: {run: 'true'}}\n"))
	}
}

// TestTaskLimit: a file of more tasks than the limit is refused, and the limit is a setting.
func TestTaskLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var b strings.Builder
	for i := range 100_001 {
		fmt.Fprintf(&b, "  t%d: {run: x}\n", i)
	}
	many := w.workflow("many", b.String())
	w.refused(exitInvalid, []string{":100003:3:", "100000 tasks"}, "validate", many)
	four := w.workflow("four", "  a: {run: 'true'}\n  b: {run: 'true'}\n  c: {run: 'true'}\n  d: {run: 'true'}\n")
	w.env = append(w.env, "SKEIN_TASKS_MAX=3")
	for _, verb := range []string{"validate", "run"} {
		w.refused(exitInvalid, []string{":6:3:", "3 tasks"}, verb, four)
	}
	// The server decides, even if another program has checked the definition before.
	p := w.server()
	_, err := p.Apply(t.Context(), "four", api.ApplyRequest{Source: w.read("four.yaml")})
	if err == nil || !strings.Contains(err.Error(), "3 tasks") {
		t.Errorf("the server took it: %v", err)
	}
	w.env[len(w.env)-1] = "SKEIN_TASKS_MAX=200000"
	if o := w.skein("validate", many); o.code != exitOK {
		t.Error(o)
	}
}

// TestPortInUse: a chosen port is used or refused. Only the default port moves on to the next one.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	for _, verb := range []string{"server", "dev"} {
		w.refused(exitConflict, []string{address, "in use"}, verb, "--listen", address)
	}
	cmd := w.command("server")
	cmd.Env = append(cmd.Env, "SKEIN_LISTEN="+address)
	w.expect(w.call(cmd), exitConflict, []string{address, "in use"}, cmd.Args)
	// The data folder was released each time.
	w.server().stop()
}

// TestSecondServer: if a server already has the data folder, the error of a second one names the first one
// and its address. If no process holds the lock file, its content has no effect.
func TestSecondServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.server()
	says := []string{p.url, "pid " + strconv.Itoa(p.cmd.Process.Pid), w.data}
	for _, verb := range []string{"server", "dev"} {
		w.refused(exitConflict, says, verb)
		w.refused(exitConflict, says, verb, "--data", w.data+"/../data/.")
	}
	if err := os.Symlink(w.data, filepath.Join(w.dir, "other-name")); err != nil {
		t.Fatal(err)
	}
	w.refused(exitConflict, says[:2], "server", "--data", filepath.Join(w.dir, "other-name"))
	w.refused(exitConflict, append(says, "status --data "), "worker", "--server", "http://127.0.0.1:1")
	w.remedy("server", "--data", filepath.Join(w.dir, "other-name"))
	odd := filepath.Join(w.dir, "it's a folder")
	if err := os.Symlink(w.data, odd); err != nil {
		t.Fatal(err)
	}
	w.env = append(w.env, "SKEIN_SERVER=http://127.0.0.1:1") // the command line takes precedence
	w.remedy("server", "--data", odd)
	w.env = w.env[:len(w.env)-1]
	p.kill()
	if lock := w.read(filepath.Join(w.data, "lock")); !strings.Contains(lock, p.url) {
		t.Fatalf("kill -9 leaves its address: %q", lock)
	}
	// No command uses the address of the dead server, although the file has it.
	if o := w.skein("status"); o.code != exitOK && o.code != exitNotFound || strings.Contains(o.out, p.url) {
		t.Error(o)
	}
	w.server().stop()
	for _, rubbish := range []string{"", "\x00\xff", `{"pid":1,"address":"http://127.0.0.1:1"}`, `{"pid":-1}`, strings.Repeat("x", 1<<16)} {
		w.write(filepath.Join(w.data, "lock"), rubbish)
		w.server().stop()
	}
}

// remedy runs in a shell the command that a refused command suggests, and checks that it finds the server.
func (w *world) remedy(args ...string) {
	w.t.Helper()
	o := w.refused(exitConflict, []string{"use it: skein status --data "}, args...)
	_, after, _ := strings.Cut(o.err, "use it: skein ")
	typed, _, _ := strings.Cut(after, "; or")
	cmd := w.command()
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", w.bin + " " + typed}
	if o := w.call(cmd); o.code != exitOK || !strings.Contains(o.out, "http://") {
		w.t.Errorf("skein %s: %v", typed, o)
	}
}

// TestFrozenHolder: if the process that holds the data folder does not answer, the error names it, and the
// wait for it is bounded.
func TestFrozenHolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.server()
	p.signal(syscall.SIGSTOP)
	w.refused(exitConflict, []string{p.url}, "server")
	p.signal(syscall.SIGCONT)
	if o := w.skein("status"); o.code != exitOK || !strings.Contains(o.out, p.url) {
		t.Error(o)
	}
	p.stop()
}

// TestBadDataFolder: each error says which folder is bad, why, and what to do. Nothing in the folder is
// changed.
func TestBadDataFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	valid := w.workflow("valid", "  a: {run: 'true'}\n")
	file := w.write("file", "mine")
	for _, verb := range [][]string{{"server"}, {"dev"}, {"run", valid}} {
		w.refused(exitError, []string{file, "is a file"}, append(verb, "--data", file)...)
		w.refused(exitError, []string{"not a folder"}, append(verb, "--data", file+"/below")...)
		w.refused(exitNotFound, []string{"/proc/nothing", "cannot be made"}, append(verb, "--data", "/proc/nothing")...)
	}
	if w.read("file") != "mine" {
		t.Error("the file was changed")
	}
	// The lock or the database is a folder.
	for _, name := range []string{"lock", "skein.db"} {
		dir := filepath.Join(w.dir, "odd-"+name)
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		w.refused(exitError, []string{dir}, "server", "--data", dir)
	}
}

// TestReadOnlyFolder: a data folder on a read-only file system can be read, but not used by a server.
func TestReadOnlyFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.data = w.smallDisk("disk", 16<<20)
	w.env = append(w.env, "SKEIN_DATA="+w.data)
	valid := w.workflow("valid", "  a: {run: 'true'}\n")
	w.refused(exitOK, nil, "run", valid)
	if err := unix.Mount("", w.data, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Skipf("a read-only file system cannot be made here: %v", err)
	}
	for _, verb := range [][]string{{"server"}, {"dev"}, {"run", valid}} {
		w.refused(exitError, []string{w.data, "read-only file system", "--data DIR"}, verb...)
	}
	w.refused(exitError, []string{w.data}, "run", "list") // SQLite needs its -shm file even to look
	if err := unix.Mount("", w.data, "", unix.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	w.refused(exitOK, nil, "run", valid)
	w.verify()
}

// TestForeignUser uses a data folder that this user may not write, or not even read.
func TestForeignUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	w := newWorld(t)
	valid := w.workflow("valid", "  a: {run: 'true'}\n")
	w.refused(exitOK, nil, "run", valid)
	// The other user must be able to run the program, so the test copies it out of the folders that only root may
	// enter.
	if err := os.Chmod(filepath.Dir(w.dir), 0o755); err != nil {
		t.Fatal(err)
	}
	copyFile(t, w.bin, filepath.Join(w.dir, "copy", "skein"), 0o755)
	asNobody := func(args ...string) *exec.Cmd {
		cmd := w.command(args...)
		cmd.Path = filepath.Join(w.dir, "copy", "skein")
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		return cmd
	}
	for mode, says := range map[os.FileMode]string{0o755: "not writable", 0o700: "permission denied"} {
		if err := os.Chmod(w.data, mode); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"server"}, {"dev"}, {"run", valid}} {
			cmd := asNobody(args...)
			o := w.call(cmd)
			if o.code != exitNotAllowed || !strings.Contains(o.err, w.data) || !strings.Contains(o.err, "--data DIR") {
				t.Errorf("mode %o, %v: want %d, %q: %v", mode, args, exitNotAllowed, says, o)
			}
		}
	}
	if err := os.Chmod(valid, 0o600); err != nil {
		t.Fatal(err)
	}
	w.expect(w.call(asNobody("validate", valid)), exitNotFound, []string{"permission denied"}, nil)
	w.refused(exitOK, nil, "run", valid)
	w.verify()
}

func copyFile(t testing.TB, from, to string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	// A child that another test forks now would inherit the open file until it calls exec, and no program can be started
	// while a process has it open for writing.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// sql changes a database without the program.
func sql(t testing.TB, path, script string) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := sqlitex.ExecuteScript(conn, script, nil); err != nil {
		t.Fatal(err)
	}
}

// rootPage returns the number of the first page of a table.
func rootPage(t testing.TB, path, table string) (page int) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = sqlitex.ExecuteTransient(conn, "SELECT rootpage FROM sqlite_schema WHERE name = ?", &sqlitex.ExecOptions{
		Args: []any{table}, ResultFunc: func(s *sqlite.Stmt) error { page = s.ColumnInt(0); return nil },
	})
	if err != nil || page == 0 {
		t.Fatalf("there is no table %s: %v", table, err)
	}
	return page
}

// TestBadDatabase: the error names a database that is foreign, too new or damaged, and the database is not
// changed.
func TestBadDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	valid := w.workflow("valid", "  a: {run: 'echo x'}\n")
	w.refused(exitOK, nil, "run", valid)
	db := filepath.Join(w.data, "skein.db")
	if _, err := os.Stat(db + "-wal"); err == nil {
		t.Fatal("the end in order leaves a log")
	}
	root := func(table string) int { return 4096 * (rootPage(t, db, table) - 1) }
	good, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	spoilt := func(from, to int) string {
		b := []byte(string(good))
		for i := from; i < min(to, len(b)); i++ {
			b[i] ^= 0xa5
		}
		return string(b)
	}
	for name, f := range map[string]struct {
		content string
		code    int // the exit code; 0 if the server may also continue
		says    string
	}{
		"text":          {"This is a text, and long enough not to be taken for anything else.", exitError, "unknown database format: the file is not a database; name another one with --db"},
		"header":        {spoilt(0, 16), exitError, "the database is damaged"},
		"whole page":    {spoilt(0, 4096), exitError, "the database is damaged"},
		"schema page":   {spoilt(100, 4096), exitError, "the database is damaged"},
		"page size":     {spoilt(16, 18), exitError, "the database is damaged"},
		"truncated":     {string(good[:len(good)/2]), exitError, "the database is damaged"},
		"one page":      {string(good[:4096]), exitError, "the database is damaged"},
		"half a page":   {string(good[:1000]), exitError, "the database is damaged"},
		"all but first": {spoilt(4096, len(good)), exitError, "the database is damaged"},
		"middle":        {spoilt(len(good)/2, len(good)/2+4096), 0, ""},
		"runs":          {spoilt(root("run"), root("run")+4096), exitError, "restore a backup"},
		"shards":        {spoilt(root("shard"), root("shard")+4096), exitError, "restore a backup"},
	} {
		w.write(db, f.content)
		for _, end := range []string{"-wal", "-shm"} {
			_ = os.Remove(db + end)
		}
		o := w.skein("run", valid)
		if f.code != 0 {
			w.expect(o, f.code, []string{f.says}, []string{name})
		}
		if strings.Contains(f.says, "database") {
			if w.read(db) != f.content {
				t.Errorf("%s: the file was changed", name)
			}
		}
		for _, verb := range []string{"verify", "status", "doctor"} {
			if o := w.skein(verb); strings.Contains(o.err, "panic") || o.code < 0 {
				t.Errorf("%s: skein %s: %v", name, verb, o)
			}
		}
	}
	for name, f := range map[string]struct{ script, says string }{
		"newer":   {"PRAGMA user_version = 99", "newer skein"},
		"another": {"PRAGMA application_id = 4711", "another program"},
	} {
		w.write(db, string(good))
		sql(t, db, f.script)
		before := w.read(db)
		for _, verb := range [][]string{{"server"}, {"dev"}, {"run", valid}, {"status"}, {"verify"}} {
			o := w.skein(verb...)
			if o.code != exitError || !strings.Contains(o.err, f.says) {
				t.Errorf("%s: skein %v: want %d and %q: %v", name, verb, exitError, f.says, o)
			}
		}
		if w.read(db) != before {
			t.Errorf("%s: the file was changed", name)
		}
	}
	w.write(db, string(good))
	w.refused(exitOK, nil, "run", valid)
	w.verify()
}

// TestLockedDatabase: the error of a start names the database that another program has locked, and says what
// to do.
func TestLockedDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.server().stop()
	db := filepath.Join(w.data, "skein.db")
	conn, err := sqlite.OpenConn(db, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := sqlitex.ExecuteTransient(conn, "BEGIN IMMEDIATE", nil); err != nil {
		t.Fatal(err)
	}
	w.refused(exitError, []string{"database " + db, "another program has locked the database; end that program"}, "server")
	w.refused(exitOK, nil, "status")
}

// TestPathsThatAreNoFolders: if the data folder is a file, the errors of commands that only read name it and
// say what to do.
func TestPathsThatAreNoFolders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env = append(w.env, "SKEIN_DATA="+w.write("file", ""))
	for _, verb := range []string{"status", "verify"} {
		w.refused(exitError, []string{"file/skein.db: not a directory; name another data folder with --data DIR"}, verb)
	}
}

// TestEmptyDatabase: a start that was killed before it made its first table leaves an empty file. The next
// start makes a database of it.
func TestEmptyDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := os.MkdirAll(w.data, 0o700); err != nil {
		t.Fatal(err)
	}
	w.write(filepath.Join(w.data, "skein.db"), "")
	for _, verb := range []string{"status", "verify"} {
		if o := w.skein(verb); o.code == exitInterrupted || strings.Contains(o.err, "panic") {
			t.Error(o)
		}
	}
	w.server().stop()
	w.verify()
}

// TestCopiedFolder: a copy of a data folder is a folder of its own, and its server leaves alone the attempts
// of the original. A copy without the write-ahead log of the database has an older state, and is valid.
func TestCopiedFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mark := fmt.Sprint("original", os.Getpid())
	p := w.server()
	p.apply("waits", "  a: {run: 'touch at-$SKEIN_TOKEN; until [ -e open ]; do sleep 0.02; done; : "+mark+"'}\n")
	id := p.begin("waits", nil)
	w.appears("at-1")
	for _, with := range []bool{true, false} {
		c := *w
		c.data = filepath.Join(w.dir, fmt.Sprint("copy-", with))
		c.env = append(c.env[:len(c.env):len(c.env)], "SKEIN_DATA="+c.data)
		for _, name := range []string{"lock", "skein.db", "skein.db-wal"} {
			if with || name != "skein.db-wal" {
				copyFile(t, filepath.Join(w.data, name), filepath.Join(c.data, name), 0o600)
			}
		}
		q := c.server() // not the address of the first server, which the copy contains, too
		if q.url == p.url {
			t.Error("the copy's server has the first one's address")
		}
		if with {
			w.appears("at-2") // the task runs once more at the copy, and still runs at the original
		}
		if left := processesWith(mark); len(left) == 0 {
			t.Error("the copy's server has ended the tasks of the first one")
		}
		q.kill()
		if !with {
			c.verify()
		}
	}
	w.gate("open")
	if run := p.wantState(id, "succeeded"); len(run.Tasks[0].Attempts) != 1 {
		t.Errorf("attempts: %+v", run.Tasks[0].Attempts)
	}
	p.stop()
	w.verify()
}
