package worker

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/artifact"
)

// deep runs a test at each level from user on.
func deep(t *testing.T, test func(t *testing.T, r *rig)) {
	for _, level := range Levels[2:] {
		t.Run(level, func(t *testing.T) {
			fenced(t)
			test(t, newRig(t, walled(t, level)))
		})
	}
}

// TestUserFiles checks the files of a task with a user of its own. The task reads its code, script and
// inputs, and writes its outputs and artifacts.
func TestUserFiles(t *testing.T) {
	deep(t, func(t *testing.T, r *rig) {
		at, list := keptIn(t, map[string]string{"in/a": "hello\n"})
		in := Input{Info: list[0], At: at, File: list[0].Name}
		job := Job{Key: r.key(), Given: []Input{in}, Artifacts: []string{"out/*"}, Handle: true,
			Script: &Script{Interpreter: "sh", Code: "cat in/a && echo more >>in/a && mkdir out && echo x >out/x && echo n=1 >$SKEIN_OUTPUT && echo h >$SKEIN_HANDLE; ls -ld . | cut -c-10; id -u"},
			Files: func() ([]File, error) {
				return []File{{Name: "lib/s.sh", Mode: 0o700, Content: []byte("#!/bin/sh\nid -u\n")}}, nil
			}}
		res := r.run(job)
		want(t, res, Succeeded, "", "")
		uid := uidOf(t, r, "shop")
		if log := r.log(job.Key); log != "hello\ndrwx------\n"+uid+"\n" {
			t.Errorf("%q", log)
		}
		if string(res.Outputs) != `{"n":"1"}` || res.Handle != "h" {
			t.Errorf("%+v", res)
		}
		kept, err := artifact.Folder{Path: r.data}.List(t.Context(), artifactsOf(&job.Key))
		if err != nil || len(kept) != 1 {
			t.Errorf("%v, %v", kept, err)
		}
		job = Job{Key: r.key(), Files: job.Files, Script: &Script{File: "lib/s.sh"}}
		if want(t, r.run(job), Succeeded, "", ""); r.log(job.Key) != uid+"\n" {
			t.Errorf("%q", r.log(job.Key))
		}
		job = r.sh("id -u; id -G; ls -A; cat lib/s.sh")
		job.Key.Namespace = "bank"
		if r.run(job); !strings.HasPrefix(r.log(job.Key), uidOf(t, r, "bank")+"\n"+uidOf(t, r, "bank")+"\ncat: ") {
			t.Errorf("%q", r.log(job.Key))
		}
	})
}

// uidOf returns the recorded user of a namespace.
func uidOf(t *testing.T, r *rig, namespace string) string {
	t.Helper()
	var given givenUIDs
	text, err := os.ReadFile(filepath.Join(r.data, uidsName))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &given); err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(int(given.Namespaces[namespace]))
}

// TestUserDir checks working folders that the workflow names. There, the rights of the task's user apply,
// also to the files that the worker reads and writes for the task.
func TestUserDir(t *testing.T) {
	deep(t, func(t *testing.T, r *rig) {
		at, list := keptIn(t, map[string]string{"a": "hello\n", "sub/deep/b": "deep\n"})
		in, deep := Input{Info: list[0], At: at, File: list[0].Name}, Input{Info: list[1], At: at, File: list[1].Name}
		r.run(r.sh("true"))
		uid, _ := strconv.Atoi(uidOf(t, r, "shop"))
		base := filepath.Dir(r.data) // other users may enter this folder
		own, foreign, closed := filepath.Join(base, "own"), filepath.Join(base, "foreign"), filepath.Join(base, "closed")
		put(t, foreign+"/secret", "x")
		if err := os.Chmod(foreign+"/secret", 0o600); err != nil {
			t.Fatal(err)
		}
		put(t, closed+"/tool", "#!/bin/sh\n")
		for dir, mode := range map[string]os.FileMode{own: 0o700, foreign: 0o755, closed: 0o700} {
			if err := os.MkdirAll(dir, mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, mode); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(own, uid, uid); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name, script, cause, message string
			job                          Job
		}{
			{"a folder above the data folder", "echo n=1 >$SKEIN_OUTPUT && echo x >$TMPDIR/x && ! ls " + r.data + "/logs", "", "", Job{Dir: base}},
			{"its own folder", "cat a && echo x >b", "", "", Job{Dir: own, Given: []Input{in}, Artifacts: []string{"b"}}},
			{"an input in folders of its own folder", "echo x >sub/new && rm -r sub", "", "", Job{Dir: own, Given: []Input{deep}}},
			{"inputs in a foreign folder", "true", CauseInputs, "belongs to another user", Job{Dir: foreign, Given: []Input{in}}},
			{"an artifact of another user", "true", CauseArtifacts, "belongs to another user", Job{Dir: foreign, Artifacts: []string{"secret"}}},
			{"a file of another user", "cat " + foreign + "/secret", CauseExit, "may not reach " + foreign + "/secret", Job{Dir: foreign}},
			{"a new file in a foreign folder", "touch " + foreign + "/new", CauseExit, "may not make files in " + foreign, Job{Dir: foreign}},
			{"a closed folder", "true", CauseStart, "may not reach " + closed, Job{Dir: closed}},
		} {
			job := c.job
			job.Argv, job.Key = []string{"sh", "-c", c.script}, r.key()
			state := Failed
			if c.cause == "" {
				state = Succeeded
			}
			t.Run(c.name, func(t *testing.T) { want(t, r.run(job), state, c.cause, c.message) })
		}
		res := r.run(Job{Argv: []string{closed + "/tool"}})
		want(t, res, Failed, CauseStart, closed+"/tool")
		if err := os.Chmod(closed+"/tool", 0o755); err != nil {
			t.Fatal(err)
		}
		res = r.run(Job{Argv: []string{closed + "/tool"}, Access: &Access{Read: []string{closed + "/tool"}}})
		want(t, res, Failed, CauseStart, "may not reach "+closed+"/tool")
	})
}

// TestUserBounds checks that the number of processes is bounded on machines that can do that.
func TestUserBounds(t *testing.T) {
	deep(t, func(t *testing.T, r *rig) {
		job := r.sh(`for f in $(sed -n 's#^[0-9]*:pids:#/sys/fs/cgroup/pids#p; s#^0::#/sys/fs/cgroup#p' /proc/self/cgroup); do cat $f/pids.max; done 2>/dev/null; true`)
		want(t, r.run(job), Succeeded, "", "")
		if log := r.log(job.Key); !strings.Contains(log, strconv.Itoa(attemptPids)) {
			t.Logf("the number of processes of an attempt is not bounded here: %q, %s", log, r.Containment())
		}
		// The limits of its process, which are at most those of the worker.
		job = r.sh(`ulimit -Hn; ulimit -Hc; ulimit -Hu`)
		job.Argv[0] = "bash"
		want(t, r.run(job), Succeeded, "", "")
		var files, processes unix.Rlimit
		if err := errors.Join(unix.Getrlimit(unix.RLIMIT_NOFILE, &files), unix.Getrlimit(unix.RLIMIT_NPROC, &processes)); err != nil {
			t.Fatal(err)
		}
		half := processes.Max
		for _, name := range []string{"pid_max", "threads-max"} {
			n, err := strconv.ParseUint(strings.TrimSpace(readText("/proc/sys/kernel/"+name)), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			half = min(half, n/2)
		}
		is := strings.Fields(r.log(job.Key))
		if want := []string{strconv.FormatUint(min(files.Max, 1<<16), 10), "0", strconv.FormatUint(half, 10)}; !slices.Equal(is, want) {
			t.Errorf("its limits of files, core dumps and processes are %q, want %q", is, want)
		}
	})
}

// TestUIDs checks that two namespaces never have the same user: across processes, after changes of the range,
// at its end, and after damage of the file.
func TestUIDs(t *testing.T) {
	path := filepath.Join(t.TempDir(), uidsName)
	book := func(from, to uint32) *uids { return &uids{path: path, from: UIDRange{from, to}} }
	give := func(u *uids, namespace string, is uint32) {
		t.Helper()
		if got, err := u.of(namespace); got != is {
			t.Errorf("%s: %d, want %d (%v)", namespace, got, is, err)
		}
	}
	give(book(5000, 5001), "a", 5000)
	u := book(5000, 5001)
	give(u, "b", 5001)
	give(u, "a", 5000)
	give(u, "c", 0)
	u = book(5001, 5009)
	give(u, "c", 5002)
	give(u, "a", 5003)
	u = book(5000, 5009)
	give(u, "a", 5003)
	give(u, "d", 5004) // 5000 was the user of namespace a
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	give(book(5000, 5009), "a", 0)
	for _, text := range []string{"", "5000", "5-4", "10-20", "5001-5000", "5000-4294967295", "x-y"} {
		if r, err := ParseUIDs(text); err == nil {
			t.Errorf("%q: %v", text, r)
		}
	}
	etc := t.TempDir()
	put(t, etc+"/passwd", "root:x:0:0::/root:/bin/sh\nann:x:6000:6000::/:/bin/sh\n")
	put(t, etc+"/group", "root:x:0:\ndisks:x:7000:ann\n")
	put(t, etc+"/subgid", "ann:8000:100\n")
	for ids, free := range map[UIDRange]bool{{5000, 5999}: true, {6000, 6001}: false, {6001, 7000}: false, {8099, 9000}: false, {8100, 9000}: true} {
		if err := unowned(etc, ids); free != (err == nil) {
			t.Errorf("%v: %v", ids, err)
		}
	}
	if err := Offers(IsolationUser, "/", UIDRange{1, 70000}); os.Geteuid() == 0 && (err == nil || !strings.Contains(err.Error(), "1-70000")) {
		t.Error(err)
	}
}
