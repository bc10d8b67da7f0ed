package skein_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestBuilt checks that a workflow built by a program is a valid workflow file.
func TestBuilt(t *testing.T) {
	type out struct {
		ID    string          `json:"id"`
		N     int64           `json:"n"`
		Ratio float32         `json:"ratio"`
		Ok    bool            `json:"ok"`
		Raw   json.RawMessage `json:"raw"`
		List  []string
		Maybe string `json:"maybe,omitempty"`
		Not   string `json:"-"`
	}
	w := skein.NewWorkflow("shop/orders").Set("priority", "high").Set("priority", "low").Param("day", "string", nil).Param("n", "int", 3).
		Task("b").Kind("vm.create", map[string]any{"x": "<${{ params.n }}>"}).Outputs(&out{}).Retry(2, time.Second).Timeout(time.Minute).Group("g").
		Task("a").Needs().Needs("b").If("always()").Run("echo hello").Task("c").Run("ls", "-l").Workflow()
	const want = `{
  "name": "orders",
  "namespace": "shop",
  "params": {
    "day": {
      "type": "string"
    },
    "n": {
      "type": "int",
      "default": 3
    }
  },
  "priority": "low",
  "tasks": {
    "b": {
      "kind": "vm.create",
      "with": {
        "x": "<${{ params.n }}>"
      },
      "outputs": {
        "id": "string",
        "n": "int",
        "ratio": "float",
        "ok": "bool",
        "raw": "json",
        "List": "json"
      },
      "retry": {
        "max": 2,
        "delay": "1s",
        "backoff": 2
      },
      "timeout": "1m0s",
      "group": "g"
    },
    "a": {
      "needs": [
        "b"
      ],
      "if": "always()",
      "run": "echo hello"
    },
    "c": {
      "run": [
        "ls",
        "-l"
      ]
    }
  }
}
`
	if src, err := w.Source(); err != nil || src != want {
		t.Errorf("%s, %v", src, err)
	}
	for _, bad := range []*skein.Workflow{skein.NewWorkflow("w").Task("a").Task("a").Workflow(), skein.NewWorkflow("w").Task("a").Outputs(5).Workflow(),
		skein.NewWorkflow("w").Set("x", make(chan int))} {
		if _, err := bad.Source(); !errors.Is(err, skein.ErrInvalid) {
			t.Errorf("%v", err)
		}
	}
}

// TestWaitAndOutputs waits for a run while servers come and go, and decodes its outputs into types.
func TestWaitAndOutputs(t *testing.T) {
	asked := 0
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			_, _ = io.Copy(w, r.Body)
		case r.URL.Path == "/base/api/v1/runs/r/tasks/t":
			_, _ = io.WriteString(w, `{"state":"succeeded","outputs":{"n":5}}`)
		case r.URL.Path == "/base/api/v1/runs/r/tasks/not":
			_, _ = io.WriteString(w, `{"state":"running","outputs":{}}`)
		case asked == 0:
			asked++
			w.WriteHeader(http.StatusServiceUnavailable)
		case asked == 1:
			asked++
			_, _ = io.WriteString(w, `{"id":"r","state":"running"}`)
		default:
			_, _ = io.WriteString(w, `{"id":"r","state":"failed"}`)
		}
	})
	run, err := c.WaitRun(t.Context(), "r")
	if err != nil || run.State != "failed" {
		t.Errorf("%+v, %v", run, err)
	}
	type out struct{ N int }
	if got, err := skein.Outputs[out](t.Context(), c, "r", "t"); err != nil || got.N != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := skein.Outputs[out](t.Context(), c, "r", "not"); !errors.Is(err, skein.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := skein.Outputs[struct{ N string }](t.Context(), c, "r", "t"); !errors.Is(err, skein.ErrInvalid) {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.WaitRun(ended, "r"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := skein.NewWorkflow("w").Start(t.Context(), c, "no object"); !errors.Is(err, skein.ErrInvalid) {
		t.Errorf("%v", err)
	}
	var _ api.Run = run
}
