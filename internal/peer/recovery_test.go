package peer

import (
	"log/slog"
	"net/http/httptest"
	"testing"

	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// TestRecoveryCalls: if a sweep calls another node, the request and the answer arrive complete.
func TestRecoveryCalls(t *testing.T) {
	far := httptest.NewServer(callsOf(&village{}, &desk{}))
	defer far.Close()
	k := NewClient(NewCaller(nil, "", nil), &village{self: store.Member{Handler: 1}, owner: store.Member{Handler: 2, Address: far.URL}}, &desk{}, slog.New(slog.DiscardHandler))
	held := []engine.Held{{Run: engine.NewRunID(), Task: 1, Token: 2, Handler: 2}, {Run: engine.NewRunID(), Task: 3, Token: 4, Handler: 2}}
	n, err := k.Check(t.Context(), 3, []engine.Suspect{{Run: held[0].Run, Fault: engine.FaultReportLost, Lost: held}, {Run: held[1].Run}})
	if err != nil || n != 2 {
		t.Errorf("%d are repaired, %v; the far node says 2", n, err)
	}
	missing, err := k.Missing(t.Context(), 2, held)
	if err != nil || len(missing) != 1 || missing[0] != held[1] {
		t.Errorf("%+v, %v; the far node lacks the second", missing, err)
	}
	far.Close()
	if _, err := k.Check(t.Context(), 3, nil); err == nil {
		t.Error("a node that is not there checked runs")
	}
	if _, err := k.Missing(t.Context(), 2, held); err == nil {
		t.Error("a node that is not there told what it has")
	}
}
