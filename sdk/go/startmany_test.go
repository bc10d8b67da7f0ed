package skein_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// batchServer answers batches. Each key makes one run, and the key is the run's id. When the server sees a
// key that ends in 7 for the first time, it answers that it is busy.
func batchServer(t *testing.T, calls *[]int) *skein.Client {
	t.Helper()
	seen := map[string]bool{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req api.BatchRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || r.URL.Path != "/api/v1/runs:batch" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		*calls = append(*calls, len(req.Runs))
		var res api.BatchResult
		for i := range req.Runs {
			k := req.Runs[i].IdempotencyKey
			if k == "" {
				t.Error("a start without a key")
			}
			v := api.StartVerdict{Verdict: api.VerdictAccepted, Run: &k}
			if seen[k] {
				v.Verdict = api.VerdictExisting
			}
			if !seen[k] && k[len(k)-1] == '7' {
				v = api.StartVerdict{Verdict: api.VerdictRefused, Problem: &api.Problem{Status: http.StatusTooManyRequests}}
			}
			seen[k] = true
			res.Items = append(res.Items, v)
		}
		if err := json.NewEncoder(w).Encode(res); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	c, err := skein.New(srv.URL, skein.WithPatience(time.Minute, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestStartMany checks that starts are sent in chunks and in order, and that starts that the server could not
// accept are repeated.
func TestStartMany(t *testing.T) {
	var calls []int
	c := batchServer(t, &calls)
	starts := func(yield func(api.RunRequest) bool) {
		for i := range 1005 {
			if !yield(api.RunRequest{Workflow: "w", IdempotencyKey: strconv.Itoa(i)}) {
				return
			}
		}
	}
	n := 0
	for v, err := range c.StartMany(t.Context(), starts) {
		if err != nil || v.Run == nil || *v.Run != strconv.Itoa(n) {
			t.Fatalf("start %d: %+v %v", n, v, err)
		}
		n++
	}
	if n != 1005 || !slices.Equal(calls, []int{1000, 100, 5}) {
		t.Errorf("%d verdicts of calls with %v starts", n, calls)
	}
	for range c.StartMany(t.Context(), starts) {
		break // after this, no request may be sent
	}
	if len(calls) != 4 {
		t.Errorf("calls %v", calls)
	}
	keyless := slices.Values([]api.RunRequest{{Workflow: "w"}, {Workflow: "w"}})
	ids := map[string]bool{}
	for v, err := range c.StartMany(t.Context(), keyless) {
		if err != nil || v.Run == nil {
			t.Fatalf("%+v %v", v, err)
		}
		ids[*v.Run] = true
	}
	if len(ids) != 2 {
		t.Errorf("two starts have the keys %v", ids)
	}
}

// TestStartManyBreaksOff checks that an error is the last pair.
func TestStartManyBreaksOff(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) }))
	defer srv.Close()
	c, err := skein.New(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n := 0
	for _, err := range c.StartMany(t.Context(), slices.Values(make([]api.RunRequest, 2500))) {
		if n++; !errors.Is(err, skein.ErrConflict) {
			t.Errorf("%v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d pairs", n)
	}
}
