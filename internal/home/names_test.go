package home_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/home"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
)

// TestNameBelongsToItsHolder: a registration under the name of a listed worker, at any node, is refused, and
// the worker keeps its jobs. The name is free when the worker has left or was declared dead. A registration whose
// answer was lost is repeated under its uuid.
func TestNameBelongsToItsHolder(t *testing.T) {
	t.Parallel()
	tn := newTown(t, 2)
	a := tn.hand(tn.nodes[0], "a", 1, "etl")
	again := *a
	again.handler = 0
	again.register("a", 1, "etl") // the answer to the registration was lost
	if again.handler != a.handler || again.lease != a.lease+1 {
		t.Errorf("handler %d under lease %d, then %d under %d", a.handler, a.lease, again.handler, again.lease)
	}
	a = &again
	rogues := make(chan string, 20)
	for i := range cap(rogues) {
		go func() { // at the same time, at both nodes
			r := &hand{t: tn, c: tn.client(i % 2)}
			_, err := r.c.Register(t.Context(), &workerv1.RegisterRequest{Name: "a", Uuid: uuid.NewString(), Slots: 10, Groups: []string{"etl"}})
			rogues <- refusalOf(err)
		}()
	}
	for range cap(rogues) {
		if why := <-rogues; why != "NAME_HELD" {
			t.Errorf("a rogue is answered %q", why)
		}
	}
	run := tn.submit(tn.apply("w", dag.NewPlace("", "etl", nil)))
	a.get(1)
	if a.running[0].Run != run.String() {
		t.Errorf("it has %v", a.running)
	}
	a.end(a.running[0])
	if _, err := a.c.Leave(t.Context(), &workerv1.LeaveRequest{Handler: a.handler, Lease: a.lease, Uuid: a.uuid}); err != nil {
		t.Fatal(err)
	}
	next := tn.hand(tn.nodes[1], "a", 1, "etl")
	(&scene{town: tn}).deposed(next)
	if last := tn.hand(tn.nodes[0], "a", 1, "etl"); last.handler == next.handler {
		t.Errorf("both are handler %d", last.handler)
	}
}

// TestNameAtOnce: several workers want a free name at the same time, and one of them gets it.
func TestNameAtOnce(t *testing.T) {
	t.Parallel()
	tn := newTown(t, 2)
	got := make(chan string, 20)
	for i := range cap(got) {
		go func() {
			_, err := tn.client(i%2).Register(t.Context(), &workerv1.RegisterRequest{Name: "a", Uuid: uuid.NewString(), Slots: 1})
			got <- refusalOf(err)
		}()
	}
	all := map[string]int{}
	for range cap(got) {
		all[<-got]++
	}
	if all[""] != 1 || all["NAME_HELD"] != cap(got)-1 {
		t.Errorf("they are answered %v", all)
	}
}

// TestNameAfterARefusal checks that a worker that was refused for its name gets the name with its next
// process once the name is free. The refused try may have left a handler under the worker's uuid.
func TestNameAfterARefusal(t *testing.T) {
	t.Parallel()
	tn := newTown(t, 1)
	m := uuid.NewString()
	if _, err := tn.store.Register(t.Context(), m, "a"); err != nil { // as if the node had died before the second transaction
		t.Fatal(err)
	}
	register := func(id string) string {
		_, err := tn.client(0).Register(t.Context(), &workerv1.RegisterRequest{Name: "a", Uuid: id, Slots: 1})
		return refusalOf(err)
	}
	if got := register(m); got != "FENCED" { // the worker must take a new uuid
		t.Errorf("the uuid of an earlier try is answered %q", got)
	}
	if got := register(uuid.NewString()); got != "" {
		t.Errorf("a new uuid is answered %q", got)
	}
}

// TestRegistrationsAreBounded: the refusal names the limit and its setting. Listed workers can register
// again.
func TestRegistrationsAreBounded(t *testing.T) {
	t.Parallel()
	tn := newTown(t, 1, func(c *home.Config) { c.WorkersMax, c.SlotsMax = 2, 5 })
	n := tn.nodes[0]
	a := tn.hand(n, "a", 5)
	tn.hand(n, "b", 5)
	for _, c := range []struct {
		name  string
		slots int32
		want  []string
	}{{"c", 1, []string{"2 workers", "workers_max", "--workers-max"}}, {"c", 6, []string{"6 slots", "allow 5", "worker_slots_max", "--worker-slots-max"}}} {
		_, err := a.c.Register(t.Context(), &workerv1.RegisterRequest{Name: c.name, Uuid: uuid.NewString(), Slots: c.slots})
		if reason(err) != "TOO_MANY" || connect.CodeOf(err) != connect.CodeResourceExhausted ||
			slices.ContainsFunc(c.want, func(part string) bool { return !strings.Contains(err.Error(), part) }) {
			t.Errorf("%d slots: %v, want %q in it", c.slots, err, c.want)
		}
	}
	a.register("a", 4)
	if n.h.Stats.Rejected(home.TooMany) != 2 {
		t.Errorf("%d are counted", n.h.Stats.Rejected(home.TooMany))
	}
	members, _, err := tn.store.Members(t.Context())
	if err != nil || len(members) != 3 {
		t.Errorf("%d members are listed, %v", len(members), err)
	}
}

func (t *town) client(i int) workerv1connect.WorkersClient {
	return workerv1connect.NewWorkersClient(http.DefaultClient, t.nodes[i].http.URL)
}
