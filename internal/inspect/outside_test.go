package inspect

import (
	"context"
	"errors"
	"testing"

	"skein.dev/skein/internal/dag"
)

// broken is an Outside that cannot evaluate the waits of a task.
type broken struct{}

func (broken) Missing(context.Context, *dag.RunRow, *dag.Graph, dag.TaskID, dag.Token) (Missing, error) {
	return Missing{}, errors.New("there is no variable n")
}

// TestWaitFails: the explanation of a wait that cannot be evaluated gives the reason in words.
func TestWaitFails(t *testing.T) {
	x := &explaining{rd: New(Config{Outside: broken{}}), run: &RunView{}}
	r := Reason{Args: args{}}
	if err := x.explainDependent(t.Context(), nil, &TaskView{Name: "w"}, &AttemptView{}, &r); err != nil {
		t.Fatal(err)
	}
	if want := "task w fails: there is no variable n"; r.What != want || r.Code != "wait_fails" {
		t.Errorf("%s: %s, want %s", r.Code, r.What, want)
	}
}
