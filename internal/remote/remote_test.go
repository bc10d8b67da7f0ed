package remote

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"skein.dev/skein/internal/worker"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/shared/session"
)

// garbage sends invalid answers.
func garbage(path, with string, status int) func(string, http.ResponseWriter) bool {
	return func(p string, w http.ResponseWriter) bool {
		if p != path {
			return false
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(with))
		return true
	}
}

// hangUp breaks the connection in place of an answer.
func hangUp(path string) func(string, http.ResponseWriter) bool {
	return func(p string, _ http.ResponseWriter) bool {
		if p == path {
			panic(http.ErrAbortHandler)
		}
		return false
	}
}

// TestReportedUntilTaken: whatever the home answers, the worker reports an end again until it gets a verdict,
// and never afterwards. If the home sends the attempt again after the verdict, it has forgotten the verdict,
// for example after a failover. The attempt does not run again. The worker reports once that the attempt is
// lost, because the home would wait for ever otherwise.
func TestReportedUntilTaken(t *testing.T) {
	t.Parallel()
	verdict := func(v workerv1.Verdict, err error) func(h *scripted) {
		return func(h *scripted) {
			h.verdict = func(n int, _ *workerv1.Result) (workerv1.Verdict, error) {
				if n < 3 {
					return v, err
				}
				return workerv1.Verdict_VERDICT_ACCEPTED, nil
			}
		}
	}
	raw := func(answer func(string, http.ResponseWriter) bool) func(h *scripted) {
		return func(h *scripted) {
			n := 0
			h.raw = func(path string, w http.ResponseWriter) bool {
				if path != "Report" {
					return false
				}
				h.mu.Lock()
				n++
				bad := n < 3
				h.mu.Unlock()
				return bad && answer(path, w)
			}
		}
	}
	for name, c := range map[string]struct {
		bad  func(h *scripted)
		last workerv1.Verdict // 0 means accepted
	}{
		"nobody can take it":           {bad: verdict(workerv1.Verdict_VERDICT_UNAVAILABLE, nil)},
		"fewer verdicts than results":  {bad: verdict(workerv1.Verdict_VERDICT_UNSPECIFIED, nil)},
		"unavailable":                  {bad: verdict(0, no(connect.CodeUnavailable, "the database is away"))},
		"not attached":                 {bad: verdict(0, no(connect.CodeFailedPrecondition, "NOT_ATTACHED: register"))},
		"the connection breaks":        {bad: raw(hangUp("Report"))},
		"a page of a proxy":            {bad: raw(garbage("Report", "<html>502</html>", http.StatusBadGateway))},
		"something else entirely":      {bad: raw(garbage("Report", "\x00\xff{", http.StatusOK))},
		"known":                        {last: workerv1.Verdict_VERDICT_DUPLICATE},
		"taken away":                   {last: workerv1.Verdict_VERDICT_STALE},
		"its run has ended":            {last: workerv1.Verdict_VERDICT_RUN_ENDED},
		"a home that makes no sense":   {last: workerv1.Verdict_VERDICT_MALFORMED},
		"a verdict of a later version": {last: 99},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, false)
			j := shell("a", `echo n=7 >> "$SKEIN_OUTPUT"; exit 0`)
			if c.bad != nil {
				c.bad(h)
			} else {
				h.verdict = func(int, *workerv1.Result) (workerv1.Verdict, error) { return c.last, nil }
			}
			w := works(t, t.TempDir(), []string{h.url})
			h.give(j)
			r := h.ends(j)
			if r.State != worker.Succeeded || !r.Exited || string(r.Outputs) != `{"n":"7"}` && string(r.Outputs) != `{"n":7}` {
				t.Errorf("its end is %v", r)
			}
			h.until("it has nothing more to say", func() bool {
				return w.s.Counts().Open == 0 && h.last != nil && len(h.last.Running)+len(h.last.Ended) == 0
			})
			told := 0
			h.do(func() { told = len(h.said(j)) })
			h.give(j)
			h.until("the attempt is lost", func() bool {
				all := h.said(j)
				return len(all) == told+1 && all[told].State == "lost"
			})
			h.until("it has nothing more to say", func() bool { return w.s.Counts().Open == 0 })
			last := shell("b", "true")
			h.give(last)
			h.ends(last)
			if err := w.over(false); err != nil {
				t.Error(err)
			}
			if n := len(h.said(j)); n != told+1 || h.left != 1 {
				t.Errorf("after its verdict %d results more were told, want 1; it left %d times", n-told, h.left)
			}
		})
	}
}

// TestAnswersBringWhatFollows: the answer to a report contains the next attempts. If one does not arrive,
// the worker reports that. It refuses attempts for which it has no slot, and reports that, too.
func TestAnswersBringWhatFollows(t *testing.T) {
	t.Parallel()
	h := newHome(t, false)
	w := works(t, t.TempDir(), []string{h.url}, func(c *Config) { c.Slots = 1 })
	first, second, long, refused := shell("first", "true"), shell("second", "true"), shell("long", "sleep 600"), shell("refused", "true")
	h.do(func() { h.next = []*workerv1.Job{second} })
	h.give(first)
	h.ends(first)
	h.ends(second)
	h.do(func() {
		if h.again != 0 {
			t.Errorf("%d polls say that an answer was missed", h.again)
		}
		broken := false
		h.verdict = func(int, *workerv1.Result) (workerv1.Verdict, error) {
			if broken {
				return workerv1.Verdict_VERDICT_ACCEPTED, nil
			}
			broken = true
			return 0, no(connect.CodeUnavailable, "the connection broke")
		}
	})
	third := shell("third", "true")
	h.give(third)
	h.until("it says that it missed an answer", func() bool { return h.again == 1 && len(h.said(third)) == 2 })
	h.do(func() { h.next = []*workerv1.Job{long, refused} })
	last := shell("last", "true")
	h.give(last)
	h.until("it says that it had no slot", func() bool { return h.again == 2 })
	h.has(long)
	h.do(func() { h.stop = []*workerv1.Stop{{Attempt: long.Attempt, Kill: true}} })
	h.ends(long)
	if err := w.over(false); err != nil {
		t.Error(err)
	}
	if len(h.said(refused)) != 0 {
		t.Error("it ran more than it has slots for")
	}
}

// TestToldByTheNextProcess: the process dies before the home has acknowledged the end of an attempt. The next
// process over the same data folder delivers the end. If the keeper lives, it uses the same handler and
// reports the running attempts, too. Otherwise it delivers the end with the old handler before its own
// registration begins.
func TestToldByTheNextProcess(t *testing.T) {
	t.Parallel()
	for _, alive := range []bool{true, false} {
		t.Run(fmt.Sprintf("keeper alive=%v", alive), func(t *testing.T) {
			t.Parallel()
			h, dir := newHome(t, false), t.TempDir()
			deaf := no(connect.CodeUnavailable, "not now")
			h.verdict = func(int, *workerv1.Result) (workerv1.Verdict, error) { return 0, deaf }
			data := t.TempDir()
			w := works(t, data, []string{h.url})
			ended := shell("ended", "echo did=it >> $SKEIN_OUTPUT")
			runs := shell("runs", "touch "+dir+"/at; until [ -e "+dir+"/go ]; do sleep 0.01; done")
			h.give(ended)
			h.ends(ended)
			if alive {
				h.give(runs)
				h.until("the other one runs", exists(dir, "at"))
			}
			w.dies()
			before := h.registers[0]
			handler := w.s.Identity().Handler
			h.do(func() { h.verdict = nil })
			if !alive { // the keeper has no attempts, so it ends
				h.until("its keeper is gone", func() bool { return !exists(data, "work/keeper.sock")() })
			}
			told := len(h.said(ended))
			w = works(t, data, []string{h.url})
			h.until("its end is told", func() bool { return len(h.said(ended)) > told })
			again := h.registers[1]
			if again.Uuid != before.Uuid || again.Handler != handler || len(again.Ended)+len(again.Running) == 0 {
				t.Errorf("it registered as %v, before as %v with handler %d", again, before, handler)
			}
			if alive {
				if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if r := h.ends(runs); r.State != worker.Succeeded {
					t.Errorf("what was adopted ended as %v", r)
				}
			} else {
				h.until("it begins a life of its own", func() bool { return len(h.registers) == 3 })
				if anew := h.registers[2]; !again.Draining || anew.Handler != 0 || anew.Uuid == before.Uuid || anew.Draining {
					t.Errorf("after %v it registered as %v", again, anew)
				}
			}
			h.until("all was taken", func() bool { return w.s.Counts().Open == 0 })
		})
	}
}

// TestFenced: the cluster has declared the worker dead. Its attempts are gone before it registers with a new
// handler, and are never reported.
func TestFenced(t *testing.T) {
	t.Parallel()
	h, dir := newHome(t, false), t.TempDir()
	alive := func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		pid, bad := strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil && bad == nil && syscall.Kill(pid, 0) == nil
	}
	leftAtRegister := false
	h.register = func(n int, in *workerv1.RegisterRequest) error {
		switch {
		case in.Handler != 0:
			return no(connect.CodeFailedPrecondition, "FENCED: declared dead")
		case n > 1:
			leftAtRegister = alive() || len(in.Running)+len(in.Ended) > 0
		}
		return nil
	}
	w := works(t, t.TempDir(), []string{h.url})
	j := shell("a", "trap '' TERM; echo $$ > "+dir+"/pid; while :; do sleep 0.1; done")
	h.give(j)
	h.has(j)
	h.until("it runs", alive)
	h.do(func() { h.leases++ }) // no node knows this attachment any more
	h.until("it is a new life", func() bool { return len(h.registers) == 3 })
	if a, b := h.registers[0], h.registers[2]; a.Uuid == b.Uuid || leftAtRegister {
		t.Errorf("registered as %v, then as %v; something was left: %v", a, b, leftAtRegister)
	}
	next := shell("b", "true")
	h.give(next)
	h.ends(next)
	if err := w.over(false); err != nil {
		t.Error(err)
	}
	if said := h.said(j); len(said) != 0 {
		t.Errorf("of the life that was over it says %v", said)
	}
}

// TestDrain: a worker that drains says that it takes no further attempts, waits for the running ones and
// their verdicts, and leaves. If it is hurried, it ends its attempts without reports, and leaves.
func TestDrain(t *testing.T) {
	t.Parallel()
	for _, hurry := range []bool{false, true} {
		t.Run(fmt.Sprintf("hurry=%v", hurry), func(t *testing.T) {
			t.Parallel()
			h, dir := newHome(t, false), t.TempDir()
			w := works(t, t.TempDir(), []string{h.url})
			j := shell("a", "touch "+dir+"/at; until [ -e "+dir+"/go ]; do sleep 0.01; done")
			h.give(j)
			h.until("it runs", exists(dir, "at"))
			w.stop()
			h.until("it says so", func() bool { return h.last.Draining && len(h.last.Running) == 1 && h.left == 0 })
			if hurry {
				close(w.hurry)
			} else if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			w.once.Do(func() {
				if err := <-w.ended; err != nil {
					t.Error(err)
				}
			})
			if n := len(h.said(j)); h.left != 1 || (n == 0) != hurry {
				t.Errorf("it left %d times, and told %d ends", h.left, n)
			}
		})
	}
}

// TestHomes: if a home is gone, has forgotten the worker, or never existed, the worker attaches to the next
// home with all its running attempts.
func TestHomes(t *testing.T) {
	t.Parallel()
	a, b, dir := newHome(t, false), newHome(t, false), t.TempDir()
	a.nodes = []string{a.url, b.url}
	gone := newHome(t, false)
	gone.gone()
	w := works(t, t.TempDir(), []string{gone.url, a.url}, func(c *Config) { c.Token = "s3cret" })
	j := shell("a", "touch "+dir+"/at; until [ -e "+dir+"/go ]; do sleep 0.01; done")
	a.give(j)
	a.until("it runs", exists(dir, "at"))
	a.has(j)
	a.do(func() { a.leases += 10 }) // as after a restart
	a.until("it is back, with what it runs", func() bool {
		return len(a.registers) == 2 && a.registers[1].Handler == 101 && len(a.registers[1].Running) == 1
	})
	a.has(j)
	a.gone()
	b.until("it is with the other one", func() bool { return len(b.registers) > 0 && b.last != nil })
	if in := b.registers[0]; in.Handler != 101 || in.Uuid != a.registers[0].Uuid || len(in.Running) != 1 || session.NameOf(in.Running[0]) != session.NameOf(j.Attempt) {
		t.Errorf("it registered as %v", in)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := b.ends(j); r.State != worker.Succeeded {
		t.Errorf("its end is %v", r)
	}
	if err := w.over(false); err != nil || b.left != 1 {
		t.Errorf("it left %d times: %v", b.left, err)
	}
	if len(b.tokens) != 1 || !b.tokens["Bearer s3cret"] {
		t.Errorf("it called with %v", b.tokens)
	}
}

// TestRegistrations checks after which answers a worker tries to register again, and which answers are
// permanent.
func TestRegistrations(t *testing.T) {
	t.Parallel()
	register := func(err error) func(*scripted) {
		return func(h *scripted) {
			h.register = func(n int, _ *workerv1.RegisterRequest) error {
				if n < 3 {
					return err
				}
				return nil
			}
		}
	}
	raw := func(with string, status int) func(*scripted) {
		return func(h *scripted) {
			n := 0
			h.raw = func(path string, w http.ResponseWriter) bool {
				h.mu.Lock()
				n++
				bad := n < 3
				h.mu.Unlock()
				return bad && garbage("Register", with, status)(path, w)
			}
		}
	}
	for name, c := range map[string]struct {
		with  func(*scripted)
		fatal string // "" if the worker tries again, and attaches
	}{
		"away": {register(no(connect.CodeUnavailable, "the database is away")), ""},
		// A person may permit it later.
		"no permission":   {register(no(connect.CodePermissionDenied, "that token may not")), ""},
		"forged":          {register(no(connect.CodePermissionDenied, "FORGED: another life")), ""},
		"a page":          {raw("<html>hello</html>", http.StatusOK), ""},
		"a broken proxy":  {raw("", http.StatusBadGateway), ""},
		"another service": {raw("not found", http.StatusNotFound), ""},
		"binary rubbish":  {raw("\x00\x01\x02", http.StatusOK), ""},
		"name taken":      {register(no(connect.CodeAlreadyExists, "NAME_TAKEN: w1 is a node")), "w1 is a node"},
		"no cluster":      {register(no(connect.CodeUnimplemented, "ALONE: this node has no cluster")), "no cluster"},
		"malformed":       {register(no(connect.CodeInvalidArgument, "MALFORMED: slots")), "slots"},
		"a lease that cannot be renewed in time": {func(h *scripted) { h.polling = 21 * time.Second },
			"the lease of this worker is too short: the lease is 1m0s, and http://127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, false)
			c.with(h)
			w := works(t, t.TempDir(), []string{h.url})
			if c.fatal == "" {
				j := shell("a", "true")
				h.give(j)
				h.ends(j)
				return
			}
			w.once.Do(func() {
				if err := <-w.ended; err == nil || !strings.Contains(err.Error(), c.fatal) {
					t.Errorf("it ended with %v, not with %q", err, c.fatal)
				}
			})
		})
	}
}

// TestStrangeOrders: invalid orders of a home do no harm, and are answered where possible.
func TestStrangeOrders(t *testing.T) {
	t.Parallel()
	h, dir := newHome(t, false), t.TempDir()
	works(t, t.TempDir(), []string{h.url}, func(c *Config) { c.Slots = 2 })
	with := func(j *workerv1.Job, change func(*workerv1.Job)) *workerv1.Job {
		change(j)
		return j
	}
	failing := map[string]*workerv1.Job{
		"there is no program":     with(shell("a", ""), func(j *workerv1.Job) { j.Argv = nil }),
		"both a command":          with(shell("b", ""), func(j *workerv1.Job) { j.Script = &workerv1.Script{Code: "true"} }),
		"was not found in PATH":   with(shell("c", ""), func(j *workerv1.Job) { j.Argv = []string{"no-such-program"} }),
		"which does not exist on": with(shell("d", ""), func(j *workerv1.Job) { j.Origin, j.Dir = "/nowhere", "below" }),
		"working directory":       with(shell("e", ""), func(j *workerv1.Job) { j.Dir = "/nowhere" }),
		"must begin with a #! li": with(shell("f", ""), func(j *workerv1.Job) { j.Argv, j.Script = nil, &workerv1.Script{Code: "true"} }),
		"namespace":               with(shell("g", "touch "+dir+"/never"), func(j *workerv1.Job) { j.Namespace = "../../etc" }),
		"task":                    with(shell("h", "touch "+dir+"/never"), func(j *workerv1.Job) { j.Task = "" }),
		"attempt":                 with(shell("i", "touch "+dir+"/never"), func(j *workerv1.Job) { j.Attempt.Token = -1 }),
	}
	for says, j := range failing {
		h.give(j)
		if r := h.ends(j); r.State != worker.Failed || r.Cause != worker.CauseStart || !strings.Contains(r.Message, says) {
			t.Errorf("%s: its end is %v", says, r)
		}
	}
	h.do(func() {
		h.start = []*workerv1.Job{{}, {Task: "without an attempt"}}
		h.stop = []*workerv1.Stop{{}, {Attempt: &workerv1.Attempt{}, Kill: true}, {Attempt: shell("x", "").Attempt}}
	})
	// One job is sent twice, and there are more jobs than slots. A job without a slot is refused, and accepted
	// when it is sent again.
	wait := "; until [ -e " + dir + "/go ]; do sleep 0.01; done"
	one, two, three := shell("one", "echo >> "+dir+"/one"+wait), shell("two", "true"+wait), shell("three", "true")
	h.give(one, one, two, three, one)
	h.has(one, two)
	h.give(three)
	h.until("one has begun", exists(dir, "one"))
	h.do(func() { h.stop = []*workerv1.Stop{{Attempt: two.Attempt}} })
	if r := h.ends(two); r.State != worker.Stopped || r.Cause != worker.CauseStopped {
		t.Errorf("what was stopped ended as %v", r)
	}
	h.give(three)
	if r := h.ends(three); r.State != worker.Succeeded {
		t.Errorf("what found no slot ended as %v", r)
	}
	h.do(func() { h.stop = []*workerv1.Stop{{Attempt: one.Attempt, Kill: true}} })
	if r := h.ends(one); r.Cause != worker.CauseKilled {
		t.Errorf("what was killed ended as %v", r)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "one")); string(text) != "\n" || exists(dir, "never")() {
		t.Errorf("it ran as %q, %v", text, err)
	}
}

// TestFilesThatDoNotCome: an attempt whose files cannot be brought fails, and says why.
func TestFilesThatDoNotCome(t *testing.T) {
	t.Parallel()
	h := newHome(t, false)
	works(t, t.TempDir(), []string{h.url})
	j := shell("a", "true")
	j.Files = true
	h.give(j)
	if r := h.ends(j); r.State != worker.Failed || r.Cause != worker.CauseStart || !strings.Contains(r.Message, "unpack the workflow's files") {
		t.Errorf("its end is %v", r)
	}
}

// TestTLS: the certificate of a home is checked, and the error names the home and the reason.
func TestTLS(t *testing.T) {
	t.Parallel()
	secure, plain := newHome(t, true), newHome(t, false)
	trusting := secure.srv.Client().Transport
	for _, c := range []struct {
		url  string
		rt   http.RoundTripper
		says string // "" if the worker attaches
	}{
		{secure.url, trusting, ""},
		{secure.url, nil, "certificate signed by unknown authority"},
		{strings.Replace(secure.url, "127.0.0.1", "localhost", 1), trusting, "certificate is valid for"},
		{strings.Replace(secure.url, "https", "http", 1), nil, "400"},
		{strings.Replace(plain.url, "http", "https", 1), nil, "server gave HTTP response to HTTPS client"},
	} {
		w := made(t, t.TempDir(), []string{c.url}, func(cfg *Config) { cfg.Transport = c.rt })
		err := w.s.Attach(t.Context())
		w.work.End()
		switch {
		case c.says == "" && err != nil, c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.url)):
			t.Errorf("%s: %v", c.url, err)
		case errors.Is(err, errLease) || session.Reason(err) == session.Fenced:
			t.Errorf("%s: taken for something else: %v", c.url, err)
		}
	}
}
