package container

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/kind/boxtest"
	"skein.dev/skein/internal/mounts"
)

// served is a machine with an engine at a socket.
type served struct {
	*box
	socket string
	daemon *exec.Cmd
	root   string // folder of Docker's own engine
}

// podmanServes starts podman's service with Docker's API.
func podmanServes(t *testing.T) *served {
	t.Helper()
	b := newBox(t)
	s := &served{box: b, socket: filepath.Join(t.TempDir(), "engine.sock")}
	conf := filepath.Join(t.TempDir(), "containers.conf")
	if err := os.WriteFile(conf, []byte("[containers]\ncgroups=\"disabled\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONTAINERS_CONF", conf)
	// On a machine with control groups of both versions, crun must see only those of version 2.
	script := `[ -e /sys/fs/cgroup/cgroup.controllers ] || { umount -l /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup; } || exit; exec "$@"`
	s.serve(exec.Command("unshare", "--mount", "sh", "-c", script, "sh", "podman", "--runtime", "crun", "--cgroup-manager", "cgroupfs", "system", "service", "--time", "0", "unix://"+s.socket))
	return s
}

// serve starts the engine, and waits until it answers.
func (s *served) serve(cmd *exec.Cmd) {
	s.Helper()
	log, err := os.Create(s.socket + ".log")
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	if s.daemon == nil {
		s.Cleanup(func() {
			_ = s.daemon.Process.Signal(syscall.SIGTERM)
			_ = s.daemon.Wait()
			all, _ := mounts.All()
			for _, m := range slices.Backward(all) {
				if s.root != "" && strings.HasPrefix(m.Point, s.root) {
					_ = unix.Unmount(m.Point, unix.MNT_DETACH)
				}
			}
		})
	}
	s.daemon = cmd
	s.waitFor("engine", func() bool {
		if zombie(cmd.Process.Pid) {
			text, _ := os.ReadFile(log.Name())
			s.Fatalf("the engine has ended:\n%s", text)
		}
		_, err := Engine(s.settings())
		return err == nil
	})
}

func (s *served) settings(folders ...Mount) Settings {
	return Settings{Engine: SocketPrefix + s.socket, Mounts: folders}
}

// attemptOf starts an attempt.
func (s *served) attemptOf(with With, more func(*kind.Input), folders ...Mount) *attempt {
	s.Helper()
	with.Image, with.Network = boxtest.Image, NetworkNone
	text, _ := json.Marshal(with)
	return s.startOf(string(text), s.settings(folders...), more)
}

// containers returns the containers of attempts that the engine knows.
func (s *served) containers() (ids []string) {
	s.Helper()
	e, err := connect(s.Context(), s.socket)
	if err != nil {
		s.Fatal(err)
	}
	var all []struct {
		ID     string `json:"Id"`
		Labels map[string]string
	}
	if err := e.call(s.Context(), http.MethodGet, "/containers/json?all=1", nil, &all); err != nil {
		s.Fatal(err)
	}
	for _, c := range all {
		if c.Labels[labelOwner] != "" {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// TestPodmanService checks that an engine with Docker's API at a socket runs tasks, and that nothing of them
// is left.
func TestPodmanService(t *testing.T) {
	s := podmanServes(t)
	s.runs()
	s.codes()
	s.killed()
	s.sweeps()
}

// TestDocker checks the same as TestPodmanService with Docker's own engine.
func TestDocker(t *testing.T) {
	s := &served{box: &box{t}, socket: filepath.Join(t.TempDir(), "engine.sock"), root: t.TempDir()}
	s.serve(boxtest.Docker(t, s.socket, s.root))
	boxtest.Load(t, s.socket)
	s.runs()
	s.codes()
	s.limits()
	s.killed()
	s.sweeps()
	s.killedEngine()
}

// runs checks that a command gets its files, variables and exit code, and little else.
func (s *served) runs() {
	data := s.TempDir()
	if err := os.WriteFile(data+"/given", []byte("from the machine\n"), 0o644); err != nil {
		s.Fatal(err)
	}
	script := `pwd; echo "task $SKEIN_TASK $A"; echo "$KEY"; cat /data/given; touch /data/x || echo no write; echo made > file; echo rows=3 >> $SKEIN_OUTPUT; grep -E 'Cap(Eff|Bnd)|NoNewPrivs|^Seccomp:' /proc/self/status; echo err >&2; read x || echo no input; env`
	a := s.attemptOf(With{Run: &Run{Shell: script}, Mounts: map[string]string{"data": "/data"}, Env: map[string]string{"A": "b", "KEY": "one\ntwo"}}, nil, Mount{Name: "data", Path: data})
	code, log := a.end()
	for _, part := range []string{"/work\ntask t b\none\ntwo\nfrom the machine\n", "no write\n", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "err\n", "no input\n"} {
		if !strings.Contains(log, part) {
			s.Errorf("%q is missing in\n%s", part, log)
		}
	}
	if strings.Contains(log, "SKEIN_INPUT") {
		s.Errorf("the container has paths of the machine:\n%s", log)
	}
	outputs, _ := os.ReadFile(a.output)
	file, _ := os.ReadFile(a.folder + "/dir/file")
	if code != 0 || string(outputs) != "rows=3\n" || string(file) != "made\n" {
		s.Errorf("%d, %q, %q", code, outputs, file)
	}
	if exists(a.output+".container") || len(s.containers()) != 0 {
		s.Error("the container or its folder is left")
	}
}

func (s *served) codes() {
	for _, c := range []struct {
		with string
		code int
		log  string
	}{
		{`{"image":"` + testImage + `","network":"none"}`, 0, "of the image\n"},
		{`{"image":"` + testImage + `","network":"none","run":{"argv":["sh","-c","exit 126"]}}`, 126, ""},
		{`{"image":"` + testImage + `","network":"none","run":{"argv":["nothing"]}}`, 127, "executable file not found"},
		{`{"image":"` + testImage + `","network":"none","run":{"lang":"sh","code":"id -u; kill -9 $$"},"user":"1000"}`, 137, "1000\n"},
		{`{"image":"` + testImage + `","network":"none","run":{"shell":"echo a > f; echo n=1 > $SKEIN_OUTPUT; stat -c %u:%g f ."},"user":"1000:7"}`, 0, "1000:7\n1000:7\n"},
		{`{"image":"` + testImage + `","network":"none","user":"nobody"}`, kind.Failed, "nobody"},
		{`{"image":"127.0.0.1:1/none:1"}`, kind.Away, "the registry cannot be reached"},
		{`{"image":"` + testImage + `","mounts":{"data":"/data"}}`, kind.Permanent, "add it to the setting container_mounts"},
	} {
		if code, log := s.start(c.with, s.settings()).end(); code != c.code || !strings.Contains(log, c.log) {
			s.Errorf("%s: %d\n%s", c.with, code, log)
		}
	}
	if left := s.containers(); len(left) > 0 {
		s.Errorf("%s are left", left)
	}
}

// limits checks that the container has the limits of the attempt.
func (s *served) limits() {
	a := s.attemptOf(With{Run: &Run{Shell: "cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/cpu/cpu.cfs_quota_us || cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/memory.max /sys/fs/cgroup/cpu.max"}},
		func(in *kind.Input) { in.CPU, in.Memory = 500, 64<<20 })
	if code, log := a.end(); code != 0 || !strings.Contains(log, "4096\n"+strconv.Itoa(64<<20)+"\n50000") {
		s.Errorf("%d\n%s", code, log)
	}
	a = s.attemptOf(With{Run: &Run{Shell: "x=0123456789abcdef; while true; do x=$x$x; done"}}, func(in *kind.Input) { in.Memory = 64 << 20 })
	if code, log := a.end(); code != 137 || !strings.Contains(log, "used more than its memory") {
		s.Errorf("%d\n%s", code, log)
	}
}

// begun starts an attempt with two processes, and waits until they run.
func (s *served) begun(mark string) *attempt {
	s.Helper()
	a := s.attemptOf(With{Run: &Run{Shell: "echo begun; sleep " + mark + " & sleep " + mark + "; wait"}}, nil)
	s.waitFor("begin", func() bool {
		if zombie(a.Process.Pid) {
			s.Fatal(a.said())
		}
		return strings.Contains(a.said(), "begun\n") && len(living("sleep\x00"+mark)) == 2
	})
	return a
}

// killed kills the process of an attempt, and the first process of its container.
func (s *served) killed() {
	for i, victim := range []string{"kind", "first", "term"} {
		mark := strconv.Itoa(3_000_000 + os.Getpid()*10 + i)
		a := s.begun(mark)
		switch victim {
		case "kind":
			_ = a.Process.Kill()
		case "term":
			_ = a.Process.Signal(syscall.SIGTERM)
		default:
			first := living("kind\x00" + Name + "\x00" + InsideArg)
			pid, _ := strconv.Atoi(strings.Fields(first[len(first)-1])[0])
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		_, log := a.end()
		s.waitFor("end of "+victim+": "+log, func() bool { return len(living("sleep\x00"+mark)) == 0 && len(s.containers()) == 0 })
		if want := map[string]int{"kind": -1, "first": 137, "term": 143}[victim]; a.ProcessState.ExitCode() != want {
			s.Errorf("%s: %d\n%s", victim, a.ProcessState.ExitCode(), log)
		}
	}
}

// sweeps checks which containers an attempt removes: only those whose own attempt was killed before it
// started the container.
func (s *served) sweeps() {
	self, err := ownerText(os.Getpid())
	if err != nil {
		s.Fatal(err)
	}
	fields := strings.Fields(self)
	e, err := connect(s.Context(), s.socket)
	if err != nil {
		s.Fatal(err)
	}
	of, dead := map[string]string{}, fields[0]+" "+fields[1]+" "+fields[2]+" 1"
	for run, owner := range map[string]string{"alive": self, "dead": dead, "rebooted": "0 " + strings.Join(fields[1:], " "), "unseen": fields[0] + " 1 " + fields[2] + " 1", "other": dead} {
		name := containerName(run, "t", "1")
		if run == "other" { // a container that has the labels of an attempt only because its image has them
			name = run
		}
		var made struct {
			ID string `json:"Id"`
		}
		if err := e.call(s.Context(), http.MethodPost, "/containers/create?name="+name, map[string]any{"Image": testImage, "Labels": map[string]string{labelOwner: owner, labelRun: run, labelTask: "t", labelToken: "1"}}, &made); err != nil {
			s.Fatal(err)
		}
		of[run] = made.ID
	}
	if code, log := s.attemptOf(With{Run: &Run{Shell: "true"}}, nil).end(); code != 0 || strings.Count(log, "of a killed attempt is removed") != 2 {
		s.Errorf("%d\n%s", code, log)
	}
	left := s.containers()
	for name, want := range map[string]bool{"alive": true, "dead": false, "rebooted": false, "unseen": true, "other": true} {
		if slices.Contains(left, of[name]) != want {
			s.Errorf("%s: %v", name, !want)
		}
		_ = e.call(s.Context(), http.MethodDelete, "/containers/"+of[name]+"?force=1", nil, nil)
	}
}

// killedEngine kills the engine. The container ends, although the engine can no longer end it.
func (s *served) killedEngine() {
	mark := strconv.Itoa(3_000_000 + os.Getpid()*10 + 9)
	a := s.begun(mark)
	_ = s.daemon.Process.Kill()
	code, log := a.end()
	if code != kind.Failed || !strings.Contains(log, "the engine has ended before the container") {
		s.Errorf("%d\n%s", code, log)
	}
	s.waitFor("end of the container", func() bool { return len(living("sleep\x00"+mark)) == 0 })
	_ = s.daemon.Wait()
	_ = os.Remove(s.root + "/run/containerd/containerd.pid") // the process is a zombie where no process reaps it
	s.serve(exec.Command(s.daemon.Args[0], s.daemon.Args[1:]...))
	s.waitFor("removal of the container", func() bool { return len(s.containers()) == 0 })
}

// TestUnsuitable checks that an engine whose containers have other users than the worker is refused, with a
// remedy.
func TestUnsuitable(t *testing.T) {
	for _, c := range []struct {
		options string
		user    int
		want    error
	}{
		{"", 0, nil}, {"name=seccomp,profile=default", 0, nil}, {"name=rootless", 1000, nil},
		{"name=rootless", 0, errRootless}, {"", 1000, errRootful}, {"name=userns", 0, errRemapped}, {"name=selinux", 0, errSELinux},
	} {
		if err := (&facts{OSType: "linux", SecurityOptions: []string{c.options}}).suits(c.user); !errors.Is(err, c.want) {
			t.Errorf("%q as user %d: %v", c.options, c.user, err)
		}
	}
	if err := (&facts{Rootless: true}).suits(1000); err != nil { // podman reports rootless in this field
		t.Error(err)
	}
}

// TestNoEngine checks that the error about a socket without an engine contains a remedy, and that a task
// waits for an engine that is away.
func TestNoEngine(t *testing.T) {
	none := Settings{Engine: SocketPrefix + t.TempDir() + "/none.sock"}
	if _, err := Engine(none); err == nil || !strings.Contains(err.Error(), "podman.socket") {
		t.Error(err)
	}
	b := &box{t}
	if code, log := b.start(`{"image":"a"}`, none).end(); code != kind.Away || !strings.Contains(log, "cannot be reached now") {
		t.Errorf("%d\n%s", code, log)
	}
}

// fake is an engine that answers as a test says.
func fake(t *testing.T, answer http.HandlerFunc) *engine {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			_, _ = w.Write([]byte(`{"Version":"1","ApiVersion":"1.41"}`))
			return
		}
		answer(w, r)
	}), ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)
	e, err := connect(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestPull checks that a pull names one image, sends the credentials of docker login, and fails with the
// engine's reason, which comes after the status 200.
func TestPull(t *testing.T) {
	var asked, auth string
	e := fake(t, func(w http.ResponseWriter, r *http.Request) {
		asked, auth = r.URL.RawQuery, r.Header.Get("X-Registry-Auth")
		_, _ = w.Write([]byte(`{"status":"Pulling from a","id":"1"}{"status":"Downloading","id":"0123456789ab"}{"errorDetail":{"message":"x"},"error":"toomanyrequests: wait"}`))
	})
	var log strings.Builder
	d := &docked{engine: e, container: &container{Env: &kind.Env{Stderr: &log}}}
	head := http.Header{}
	head.Set("X-Registry-Auth", "secret")
	for name, want := range map[string]string{
		"a": "fromImage=a&tag=latest", "r:5000/a/b:1": "fromImage=r%3A5000%2Fa%2Fb&tag=1", "r:5000/a": "fromImage=r%3A5000%2Fa&tag=latest", "a:1@sha256:0": "fromImage=a&tag=sha256%3A0",
	} {
		err := d.pullOf(t.Context(), name, head)
		if asked != want || auth != "secret" || err == nil || !away.MatchString(err.Error()) {
			t.Errorf("%s: %s, %q, %v", name, asked, auth, err)
		}
	}
	if strings.Contains(log.String(), "Downloading") {
		t.Error(log.String())
	}
}

func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	t.Setenv("PATH", dir)
	if got, err := credentials(t.Context(), "r:5000"); got != "" || err != nil {
		t.Error(got, err)
	}
	config := `{"auths":{"r:5000":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("ann:se:cret")) + `"},"https://index.docker.io/v1/":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("hub:p")) + `"}},"credHelpers":{"h.example":"test"}}`
	if err := os.WriteFile(dir+"/config.json", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/docker-credential-test", []byte("#!/bin/sh\nread key || :\necho '{\"Username\":\"helper\",\"Secret\":\"'$key'\"}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for registry, want := range map[string]string{"r:5000": `"password":"se:cret","serveraddress":"r:5000","username":"ann"`, dockerHub: `"username":"hub"`, "h.example": `"password":"h.example"`, "other": ""} {
		got, err := credentials(t.Context(), registry)
		text, _ := base64.URLEncoding.DecodeString(got)
		if err != nil || !strings.Contains(string(text), want) || want == "" && got != "" {
			t.Errorf("%s: %s, %v", registry, text, err)
		}
	}
	if err := os.WriteFile(dir+"/config.json", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := credentials(t.Context(), "a"); err == nil {
		t.Error("a broken file is taken for none")
	}
}

// TestHostileEngine checks that an invalid answer ends the attempt with a reason.
func TestHostileEngine(t *testing.T) {
	e := fake(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(strings.Repeat("x", 1<<20)))
	})
	if err := e.call(t.Context(), http.MethodGet, "/info", nil, nil); !isStatus(err, http.StatusInternalServerError) || len(err.Error()) > 1000 {
		t.Error(err)
	}
	if _, err := e.attach(t.Context(), "x"); !isStatus(err, http.StatusInternalServerError) {
		t.Error(err)
	}
}
