package sim

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var (
	seedFlag     = flag.Uint64("seed", 0, "the seed that TestSeed replays, and the first of TestSoak")
	aheadFlag    = flag.Bool("ahead", false, "whether TestSeed and TestSoak have small transactions be made ahead, too")
	alertsFlag   = flag.Bool("alerts", false, "whether the workflows of TestSeed and TestSoak have an alert rule")
	auditFlag    = flag.Bool("audit", false, "whether the verbs of TestSeed and TestSoak are audited")
	quotasFlag   = flag.Bool("quotas", false, "whether the runs of TestSeed and TestSoak are bounded by a quota")
	spacesFlag   = flag.Bool("spaces", false, "whether the world of TestSeed and TestSoak has several namespaces, whose quotas and levels change")
	loadsFlag    = flag.Bool("loads", false, "whether the shards of TestSeed and TestSoak have costs, by which they are spread")
	backFlag     = flag.Bool("back", false, "whether TestSeed and TestSoak have the store go back to an earlier state")
	registryFlag = flag.Bool("registry", false, "whether the nodes of TestSeed and TestSoak have a registry that fails and lies")
	handlesFlag  = flag.Bool("handles", false, "whether the attempts of TestSeed and TestSoak begin work outside of their processes")
	eventsFlag   = flag.Bool("events", false, "whether tasks of TestSeed and TestSoak wait for events")
	seedsFlag    = flag.Uint64("seeds", 18_000, "how many seeds TestSoak plays")
	mutantFlag   = flag.String("mutant", "", "the bug that TestSeed and TestSoak play with")
)

func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(400) // histories are short and make much garbage
	os.Exit(m.Run())
}

// TestSeed replays one seed. With -v it prints the whole history.
func TestSeed(t *testing.T) {
	stage := &Stage{Ahead: *aheadFlag, Back: *backFlag, Alerts: *alertsFlag, Audit: *auditFlag, Quotas: *quotasFlag, Spaces: *spacesFlag, Registry: *registryFlag, Load: *loadsFlag, Handles: *handlesFlag, Events: *eventsFlag}
	defer stage.Close()
	var trace *os.File
	if testing.Verbose() {
		trace = os.Stdout
	}
	w := Run(stage, *seedFlag, mutantNamed(t, *mutantFlag), trace)
	for _, f := range w.Found {
		t.Error(f)
	}
}

// TestSameSeed checks that the same seed gives exactly the same history.
func TestSameSeed(t *testing.T) {
	stage := &Stage{}
	defer stage.Close()
	for seed := range uint64(60) {
		stage.Events = seed >= 50
		one, two := fnv.New64a(), fnv.New64a()
		Run(stage, seed, nil, one)
		Run(stage, seed, nil, two)
		if one.Sum64() != two.Sum64() {
			t.Errorf("seed %d has two histories", seed)
		}
	}
}

// found lists seeds that have shown a bug of the product. See docs/reliability.md.
var found = []uint64{16, 106, 430, 972, 1903, 6721, 7933, 9820, 10720, 20200, 39076, 45061, 57163, 1352, 4268, 98588, 123121, 128233, 138937, 146755, 238237, 291097, 133867, 400148, 511966, 533758, 666718, 810503, 1157629, 3392344, 3495376, 3875977, 3913520, 4012814, 4075233, 4082823}

// TestFound checks that no seed that once showed a bug shows one again.
func TestFound(t *testing.T) {
	stage := &Stage{}
	defer stage.Close()
	for _, seed := range found {
		for _, f := range Run(stage, seed, nil, nil).Found {
			t.Errorf("seed %d: %s", seed, f)
		}
	}
}

// tally holds the counts of a soak.
type tally struct {
	sync.Mutex
	seeds, commits, runs, faults int
	kinds                        map[string]int
	bad                          []uint64
	what                         map[uint64]string
	rules                        map[string]uint64 // rule → a seed that broke it
}

func (a *tally) add(w *World) {
	a.Lock()
	defer a.Unlock()
	a.seeds++
	a.commits += w.witness.Commits
	a.runs += len(w.witness.order)
	for k, n := range w.Faults {
		a.kinds[k] += n
		a.faults += n
	}
	if len(w.Found) > 0 {
		a.bad = append(a.bad, w.Seed)
		a.what[w.Seed] = w.Found[0]
		for _, found := range w.Found {
			rule, _, _ := strings.Cut(found, ":")
			a.rules[rule] = w.Seed
		}
	}
}

// badMax bounds the violations that a soak prints, because one bug can show in every seed.
const badMax = 20

func newTally() *tally {
	return &tally{kinds: map[string]int{}, what: map[uint64]string{}, rules: map[string]uint64{}}
}

// tellEach prints the progress each minute, so that a long soak shows a violation early.
func (a *tally) tellEach(ctx context.Context, t *testing.T, n uint64) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Minute):
			a.Lock()
			t.Logf("%d of %d seeds, %d violations %v", a.seeds, n, len(a.bad), a.bad[:min(len(a.bad), badMax)])
			a.Unlock()
		}
	}
}

// soak plays seeds on all cores.
func soak(first, n uint64, m *Mutant, stage Stage) *tally {
	all := newTally()
	all.soak(first, n, m, stage)
	return all
}

func (a *tally) soak(first, n uint64, m *Mutant, like Stage) {
	var next atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			stage := &Stage{Ahead: like.Ahead, Back: like.Back, Alerts: like.Alerts, Audit: like.Audit, Quotas: like.Quotas, Spaces: like.Spaces, Registry: like.Registry, Load: like.Load, Handles: like.Handles, Events: like.Events}
			defer stage.Close()
			for i := next.Add(1) - 1; i < n; i = next.Add(1) - 1 {
				a.add(Run(stage, first+i, m, nil))
			}
		})
	}
	wg.Wait()
	a.Lock()
	defer a.Unlock()
	slices.Sort(a.bad)
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestAhead makes owners prepare transactions while the previous one is being written, and lets the previous
// one fail.
func TestAhead(t *testing.T) {
	all := soak(0, 250, nil, Stage{Ahead: true})
	for _, seed := range all.bad {
		t.Errorf("seed %d: %.400s\n\tgo test ./internal/sim -run TestSeed$ -seed %d -ahead -v", seed, all.what[seed], seed)
	}
	if n := all.kinds["transaction made ahead"]; n < 50 {
		t.Errorf("%d transactions were made ahead", n)
	}
}

// TestSoak plays many seeds. `make soak SEEDS=n` runs it.
func TestSoak(t *testing.T) {
	n := *seedsFlag
	if testing.Short() {
		n = min(n, 1000)
	}
	began := cpu()
	all := newTally()
	ctx, stop := context.WithCancel(t.Context())
	var telling sync.WaitGroup
	telling.Go(func() { all.tellEach(ctx, t, n) })
	all.soak(*seedFlag, n, mutantNamed(t, *mutantFlag), Stage{Ahead: *aheadFlag, Back: *backFlag, Alerts: *alertsFlag, Audit: *auditFlag, Quotas: *quotasFlag, Spaces: *spacesFlag, Registry: *registryFlag, Load: *loadsFlag, Handles: *handlesFlag, Events: *eventsFlag})
	stop()
	telling.Wait()
	for _, seed := range all.bad[:min(len(all.bad), badMax)] {
		t.Errorf("seed %d: %.400s\n\tgo test ./internal/sim -run TestSeed$ -seed %d -v", seed, all.what[seed], seed)
	}
	took := cpu() - began
	text := ""
	for _, k := range slices.Sorted(maps.Keys(all.kinds)) {
		text += fmt.Sprintf("\n  %9d × %s", all.kinds[k], k)
	}
	t.Logf("%d seeds, %d runs, %d commits, %d faults: %d violations; %.0f seeds per second of one core%s",
		all.seeds, all.runs, all.commits, all.faults, len(all.bad), float64(all.seeds)/took.Seconds(), text)
}
