package skein_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	skein "skein.dev/skein/sdk"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
	"skein.dev/skein/sdk/shared/line"
)

// TestReportsOverLines checks that a worker that reports often uses a line, with its current token, and that
// it uses ordinary calls when lines end.
func TestReportsOverLines(t *testing.T) {
	d := newDesk(t)
	lines, gone := line.NewLines(), atomic.Bool{}
	var over, refused atomic.Int32
	path, calls := workerv1connect.NewWorkersHandler(d)
	mux := http.NewServeMux()
	mux.Handle(path, calls)
	mux.HandleFunc(path+line.Path, func(w http.ResponseWriter, r *http.Request) {
		if gone.Load() || r.Header.Get("Authorization") != "Bearer t" {
			refused.Add(1)
			http.NotFound(w, r)
			return
		}
		lines.Serve(w, r, func(ctx context.Context, call []byte) ([]byte, error) {
			over.Add(1)
			in := &workerv1.ReportRequest{}
			if err := proto.Unmarshal(call, in); err != nil {
				return nil, err
			}
			if over.Load() == 3 { // the report is repeated
				return nil, &line.Refused{Code: 14, Text: "not now"}
			}
			out, err := d.Report(ctx, in)
			if err != nil {
				return nil, err
			}
			return proto.Marshal(out)
		})
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	w := skein.NewWorker(server.URL, skein.WorkerOptions{Name: "w", Slots: 2, Token: "t", Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	skein.Handle(w, "k", func(context.Context, *skein.Task, struct{}) (struct{}, error) { return struct{}{}, nil })
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	token := int64(0)
	next := func() {
		token++
		d.jobs <- job(token, `{}`)
		r := <-d.told
		for r.Attempt.Token < token { // repeated reports, because their answers were lost with the line
			r = <-d.told
		}
		if r.Attempt.Token != token || r.State != "succeeded" {
			t.Errorf("it said %v", r)
		}
	}
	for began := time.Now(); over.Load() < 6; next() {
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("%d reports came over a line", over.Load())
		}
	}
	gone.Store(true)
	lines.Close()
	// The worker uses ordinary calls until reports are frequent enough for another line.
	for began := time.Now(); refused.Load() == 0; next() {
		if time.Since(began) > 2*time.Minute {
			t.Fatal("nobody asked for a line since they ended")
		}
	}
	next()
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
