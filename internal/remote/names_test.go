package remote

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// TestNameHeld: if another worker has the name of a worker, the worker waits until the name is free. It uses
// the same uuid for all tries, and logs the wait once.
func TestNameHeld(t *testing.T) {
	t.Parallel()
	h := newHome(t, false)
	const refusals = 4
	h.register = func(n int, _ *workerv1.RegisterRequest) error {
		if n <= refusals {
			return no(connect.CodeAlreadyExists, "NAME_HELD: a worker with the name w1 is listed")
		}
		return nil
	}
	w := works(t, t.TempDir(), []string{h.url})
	h.until("it is attached", w.s.Attached)
	if err := w.over(false); err != nil {
		t.Error(err)
	}
	if n := strings.Count(w.log.String(), "code=worker_not_attached") + strings.Count(w.log.String(), "code=worker_refused"); n != 1 {
		t.Errorf("it said so %d times:\n%s", n, w.log)
	}
	uuids := map[string]bool{}
	for _, in := range h.registers {
		uuids[in.Uuid] = true
	}
	if len(h.registers) != refusals+1 || len(uuids) != 1 {
		t.Errorf("it registered %d times, as %v", len(h.registers), uuids)
	}
}

// TestNameOfItsOwn: a worker that was killed with its keeper while it had nothing is started again over its
// data folder. The registration of the earlier process still holds its name. The worker ends that
// registration, and need not wait.
func TestNameOfItsOwn(t *testing.T) {
	t.Parallel()
	h, data := newHome(t, false), t.TempDir()
	job := shell("done", "true")
	w := works(t, data, []string{h.url})
	h.give(job)
	h.ends(job)
	h.until("its keeper knows that the end was taken", func() bool {
		journal, err := os.ReadFile(filepath.Join(data, "work", "keeper.journal"))
		return err == nil && bytes.Contains(journal, []byte(`"taken":`))
	})
	before := h.registers[0]
	handler := w.s.Identity().Handler
	w.dies()
	left := 0
	h.do(func() {
		left = h.left
		h.register = func(_ int, in *workerv1.RegisterRequest) error {
			if in.Handler == 0 && h.left == left {
				return no(connect.CodeAlreadyExists, "NAME_HELD: a worker with the name w1 is listed")
			}
			return nil
		}
	})
	w = works(t, data, []string{h.url})
	h.until("it is attached as a new life", func() bool {
		last := h.registers[len(h.registers)-1]
		return w.s.Attached() && last.Handler == 0
	})
	var told *workerv1.RegisterRequest
	for _, in := range h.registers[1:] {
		if in.Handler != 0 {
			told = in
		}
	}
	if told == nil || told.Uuid != before.Uuid || told.Handler != handler || !told.Draining || h.left != left+1 {
		t.Errorf("the life before was ended by %v, and %d times", told, h.left-left)
	}
}
