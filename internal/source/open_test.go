package source

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// TestEgressOfNamespaces: each kind of source obeys the policy of its namespace, or passes it to its process.
// A refusal names the namespace.
func TestEgressOfNamespaces(t *testing.T) {
	var calls atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer site.Close()
	configs := map[string]connection.Config{"db": {Postgres: database(t)}}
	policy := egress.Public
	m := &Means{
		Workflow: func(context.Context, dag.WorkflowID) (namespace, name string, err error) {
			return "shop", "orders", nil
		},
		Connection: func(_ context.Context, _, name string) ([]byte, error) {
			if name == "kafka" {
				return []byte(`{"kafka":{"brokers":["127.0.0.1:1"]}}`), nil
			}
			return json.Marshal(configs[name])
		},
		Secret: func(context.Context, string, string) (string, error) { return "id:key", nil },
		Rules: func(_ context.Context, namespace string) (egress.Rules, error) {
			return egress.Rules{Policies: []string{egress.Any}}.Under(namespace, policy), nil
		},
		Shared: NewShared(), Plus: func() ([]string, error) { return []string{"skein-plus"}, nil },
	}
	open := func(decl workflow.Trigger) Source {
		t.Helper()
		is, err := m.Open(t.Context(), &store.Trigger{Workflow: 1}, &decl, Start{})
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	for name, decl := range map[string]workflow.Trigger{
		"poll":   {Poll: &workflow.Poll{URL: site.URL, Every: workflow.Duration(time.Hour)}},
		"query":  {Query: &workflow.Query{Connection: "db", Query: "SELECT 1 AS id WHERE 1 > :cursor ORDER BY id", Cursor: "id", Every: workflow.Duration(time.Hour)}},
		"object": {Object: &workflow.Objects{URL: "s3://orders?path_style=true&endpoint=" + site.URL, Secret: "s", Every: workflow.Duration(time.Hour)}},
	} {
		policy = egress.Public
		err := open(decl).Run(t.Context(), nil, newLedger().give)
		if r, refused := egress.Refused(err); !refused || !strings.HasPrefix(r.Why, "the egress of namespace shop is public") {
			t.Errorf("%s: %v", name, err)
		}
		policy = "public,127.0.0.0/8"
		ctx, cancel := context.WithCancel(t.Context())
		err = open(decl).Run(ctx, nil, func(context.Context, Batch) error { cancel(); return ctx.Err() })
		if _, refused := egress.Refused(err); refused || err == nil {
			t.Errorf("%s under a policy that allows the address: %v", name, err)
		}
		cancel()
	}
	if calls.Load() == 0 {
		t.Error("no call came")
	}
	begun, err := open(workflow.Trigger{Outside: &workflow.Outside{Source: "kafka", Connection: "kafka", With: []byte("{}")}}).(*Process).Begin(t.Context())
	if err != nil || !strings.Contains(string(begun.Start.Egress), `["any","public,127.0.0.0/8"],"Namespace":"shop"`) {
		t.Errorf("the process gets %s, %v", begun.Start.Egress, err)
	}
}
