package remote

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"skein.dev/skein/internal/logindex"
	"skein.dev/skein/internal/logs"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// wants returns a request for a piece of the output of a job.
func wants(ticket string, j *workerv1.Job, offset int64, limit int32) *workerv1.LogRead {
	return &workerv1.LogRead{Ticket: ticket, Attempt: j.Attempt, Namespace: j.Namespace, Workflow: j.Workflow, Task: j.Task, Offset: offset, Limit: limit}
}

// piece requests a piece of a log, and waits for it.
func (h *scripted) piece(want *workerv1.LogRead) (data string) {
	h.t.Helper()
	h.do(func() { h.read = append(h.read, want) })
	h.until("the piece "+want.Ticket, func() bool {
		all := h.given[want.Ticket]
		if len(all) > 0 {
			data = string(all[len(all)-1].Data)
		}
		return len(all) > 0
	})
	return data
}

// TestGivesLogs: a worker gives its home any piece of the log of an attempt that ran there: while the attempt
// runs, after its end, and after a restart of the worker. It gives no other file.
func TestGivesLogs(t *testing.T) {
	t.Parallel()
	h, data := newHome(t, false), t.TempDir()
	w := works(t, data, []string{h.url})
	j := shell("a", `i=0; while [ $i -lt 20000 ]; do echo 0123456789012345678901234567890123456789012345678; i=$((i+1)); done; : > "`+data+`/printed"; while ! [ -e "`+data+`/over" ]; do sleep 0.05; done`)
	h.give(j)
	h.until("it has printed", exists(data, "printed"))
	const index = "records of the blocks of the log"
	if files, err := filepath.Glob(filepath.Join(data, "logs", "*", "*", "*", "*.log")); err != nil || len(files) != 1 || os.WriteFile(files[0]+logindex.Suffix, []byte(index), 0o600) != nil {
		t.Fatal(files, err)
	}
	text := strings.Repeat("0123456789012345678901234567890123456789012345678\n", 20000)
	pieces := func(when string) {
		t.Helper()
		for i, at := range []struct {
			offset int64
			limit  int32
		}{{0, 10}, {7, 100}, {0, 1 << 30}, {600_000, logs.PieceMax}, {999_999, 5}, {1_000_000, 5}, {2_000_000, 5}, {0, 0}, {5, -1}} {
			want := text[min(at.offset, 1_000_000):min(at.offset+max(0, min(logs.PieceMax, int64(at.limit))), 1_000_000)]
			if got := h.piece(wants(fmt.Sprint(when, i), j, at.offset, at.limit)); got != want {
				t.Errorf("%s: from %d at most %d: %d bytes, want %d", when, at.offset, at.limit, len(got), len(want))
			}
		}
		for i, at := range []int64{0, 21, 100} {
			want := wants(fmt.Sprint(when, "index", i), j, at, 1<<20)
			want.Index = true
			if got := h.piece(want); got != index[min(at, int64(len(index))):] {
				t.Errorf("%s: the index from %d: %q", when, at, got)
			}
		}
		for i, change := range []func(*workerv1.LogRead){
			func(r *workerv1.LogRead) { r.Attempt.Token = 2 },
			func(r *workerv1.LogRead) { r.Attempt.Run = "../../etc" },
			func(r *workerv1.LogRead) { r.Attempt = nil },
			func(r *workerv1.LogRead) { r.Task = "../a" },
			func(r *workerv1.LogRead) { r.Workflow = ".." },
			func(r *workerv1.LogRead) { r.Namespace = "" },
			func(r *workerv1.LogRead) { r.Offset = -1 },
		} {
			bad := proto.Clone(wants(fmt.Sprint(when, "bad", i), j, 0, 10)).(*workerv1.LogRead)
			change(bad)
			if got := h.piece(bad); got != "" {
				t.Errorf("%s: %v: %q", when, bad, got)
			}
		}
	}
	pieces("while it runs")
	over := shell("b", `: > "`+data+`/over"`)
	h.give(over)
	h.ends(j)
	pieces("after its end")
	if err := w.over(false); err != nil {
		t.Fatal(err)
	}
	works(t, data, []string{h.url})
	pieces("as the next process")
	h.do(func() {
		if !h.registers[0].GivesLogs {
			t.Error("it does not say that it gives logs")
		}
	})
}
