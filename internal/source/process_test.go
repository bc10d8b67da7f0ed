package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/workflow"
)

// script makes a Process of a shell script.
func script(t *testing.T, in *workflow.Intake, text string) *Process {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
	path := filepath.Join(t.TempDir(), "source.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	if in == nil {
		in = &workflow.Intake{}
	}
	return &Process{Intake: in, Begin: func(context.Context) (*Begun, error) {
		b := &Begun{Argv: []string{"/bin/sh", path}, Hidden: []string{"canary-77"}}
		b.Start.Source = "s"
		return b, nil
	}}
}

// says reports whether an error has a text.
func says(err error, what string) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, what)
}

// TestProcessGives: a source that is a process gives events, continues at its cursor, and is notified of
// stored lines.
func TestProcessGives(t *testing.T) {
	dir := t.TempDir()
	p := script(t, nil, `read first; printf '%s' "$first" >`+dir+`/first
echo '{"events": [{"key": "a", "value": 1}, {"key": "b", "reason": "cannot be used"}], "cursor": {"n": 1}}'
read line; printf '%s' "$line" >`+dir+`/taken
echo '{"lost": 3, "why": "they are gone", "cursor": {"n": 4}}'
echo '{"lag": 7}'
exit 75`)
	l := newLedger()
	var lost int64
	err := p.Run(t.Context(), nil, func(ctx context.Context, b Batch) error {
		lost += b.Lost
		return l.give(ctx, b)
	})
	if err == nil || lost != 3 || !slices.Equal(l.values, []string{"1"}) || len(l.unread) != 1 || string(l.cursor) != `{"n":4}` || p.State().Lag != 7 {
		t.Errorf("%v: %+v", err, l)
	}
	first, _ := os.ReadFile(filepath.Join(dir, "first"))
	taken, _ := os.ReadFile(filepath.Join(dir, "taken"))
	if !strings.Contains(string(first), `"from":"now"`) || string(taken) != `{"taken":1}` {
		t.Errorf("%s\n%s", first, taken)
	}
	q := script(t, nil, `read first; printf '%s' "$first" >`+dir+`/first; exit 75`)
	if err := q.Run(t.Context(), l.cursor, l.give); err == nil {
		t.Error("a process that ends is no error")
	}
	if first, _ := os.ReadFile(filepath.Join(dir, "first")); !strings.Contains(string(first), `"cursor":{"n":4}`) {
		t.Errorf("%s", first)
	}
}

// TestProcessRubbish: whatever a process writes and however it ends, it does no harm, and the state says the
// reason. No reason shows a secret.
func TestProcessRubbish(t *testing.T) {
	for text, want := range map[string]string{
		"echo hello":                                        "not of the protocol",
		`echo '{"events": [{"key":"a"}]}'`:                  "events without a cursor",
		`echo '{"cursor": null, "events": [{"key":"a"}]}'`:  "events without a cursor",
		`head -c 5000000 /dev/zero; echo`:                   "cannot be read",
		`exit 0`:                                            "ended by itself",
		`echo 'the server says canary-77 no' >&2; exit 75`:  "the server says",
		`echo first >&2; echo 'write a topic' >&2; exit 78`: "source s: write a topic",
		`kill -9 $$`:                                        "signal: killed, and said nothing",
		`echo oops >&2; exit 3`:                             "exit status 3: oops",
		`for i in $(seq 501); do printf '{"key":"%s"},' $i; done | sed 's/^/{"cursor":1,"events":[/; s/,$/]}/'; echo`: "the limit is 500",
	} {
		err := script(t, nil, "read first\n"+text).Run(t.Context(), nil, newLedger().give)
		if !says(err, want) || says(err, "canary") || says(err, "first") {
			t.Errorf("%s: %v", text, err)
		}
		var later *LaterError
		if strings.Contains(text, "exit 78") && !errors.As(err, &later) {
			t.Errorf("%s: %#v", text, err)
		}
	}
	p := script(t, nil, "exit 0")
	if err := p.Run(t.Context(), []byte("no json"), newLedger().give); !errors.Is(err, errCursor) {
		t.Error(err)
	}
	p.Begin = func(context.Context) (*Begun, error) { return &Begun{Argv: []string{"/nowhere/program"}}, nil }
	if err := p.Run(t.Context(), nil, newLedger().give); !says(err, "cannot be started") {
		t.Error(err)
	}
}

// TestProcessEnds: the end of the context ends a process that ignores the end of its input, and all processes
// of its group.
func TestProcessEnds(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "alive")
	p := script(t, nil, `trap '' TERM; (while true; do date >`+mark+`; sleep 0.05; done) &
echo '{"lag": 0}'; while true; do sleep 1; done`)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, nil, newLedger().give) }()
	for p.State().Heard == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_ = os.Remove(mark)
	time.Sleep(200 * time.Millisecond)
	if _, err := os.Stat(mark); err == nil {
		t.Error("a process of its group is alive")
	}
}

// TestProcessCollects: lines join until batch.max is reached or batch.wait has passed.
func TestProcessCollects(t *testing.T) {
	p := script(t, &workflow.Intake{BatchMax: 4, BatchWait: workflow.Duration(300 * time.Millisecond)}, `read first
for i in 1 2 3 4 5 6; do echo '{"events": [{"key": "'$i'", "value": '$i'}], "cursor": '$i'}'; done
sleep 10`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	err := p.Run(ctx, nil, func(_ context.Context, b Batch) error {
		got = append(got, fmt.Sprintf("%s>%s:%d", b.After, b.Cursor, len(b.Events)))
		if len(got) == 2 {
			cancel()
		}
		return nil
	})
	if want := []string{">4:4", "4>6:2"}; !slices.Equal(got, want) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v %v", got, err)
	}
}

// TestProcessHeldUp: while the node accepts no batch, a process can write only as much as the pipe holds.
func TestProcessHeldUp(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	p := script(t, nil, `read first; i=0
while true; do i=$((i+1)); echo '{"events": [{"key": "'$i'", "value": "`+strings.Repeat("x", 8000)+`"}], "cursor": '$i'}'; echo $i >`+count+`; done`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := p.Run(ctx, nil, func(ctx context.Context, _ Batch) error {
		time.Sleep(time.Second)
		return errDied
	})
	text, _ := os.ReadFile(count)
	if n := len(strings.TrimSpace(string(text))); !errors.Is(err, errDied) || n > 2 { // fewer than 100 lines
		t.Errorf("%v, %s lines", err, text)
	}
}

// TestProcessHoldsNoTimers: a line that waits for further lines leaves no timer when it is stored.
func TestProcessHoldsNoTimers(t *testing.T) {
	const count = 40_000
	in := &workflow.Intake{BatchMax: 2, BatchWait: workflow.Duration(time.Hour)}
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		for range count {
			lines <- []byte(`{"events":[{"key":"a","value":1}],"cursor":1}`)
		}
	}()
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	given, before, after := 0, heap(), int64(0)
	i := intaking{p: &Process{Intake: in}, answers: newAnswers(io.Discard), give: func(context.Context, Batch) error {
		if given++; given == count/2 {
			after = heap()
		}
		return nil
	}}
	if err := i.run(t.Context(), lines); err != nil || given != count/2 || after-before > 2<<20 {
		t.Errorf("%v; %d batches, %d bytes are kept", err, given, after-before)
	}
	i.answers.end()
}

// TestProcessMemory: a process that takes more memory than it may is ended with that reason, even if its
// child process takes the memory. The other limits do not end the process.
func TestProcessMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the memory of a process is known on Linux only")
	}
	const takes = `read first; test "$GOMEMLIMIT" = 50331648 || { echo "GOMEMLIMIT is $GOMEMLIMIT" >&2; exit 78; }
python3 -c 'import sys
x = bytearray(int(sys.argv[1]))
print("{\"lag\":7}", flush=True)
sys.stdin.read()' `
	run := func(size string) error {
		p := script(t, nil, takes+size+"\n")
		begin := p.Begin
		p.Begin = func(ctx context.Context) (*Begun, error) {
			b, err := begin(ctx)
			b.Memory = 64 << 20
			return b, err
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx, nil, newLedger().give) }()
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			select {
			case err := <-done:
				return err
			default:
			}
			if at := p.State().Alive; !at.IsZero() && time.Since(at) > 3*memoryEvery && size == "1000" || time.Since(began) > time.Minute {
				cancel()
				return <-done
			}
		}
	}
	err := run("100000000")
	var later *LaterError
	if !errors.Is(err, errTooMuch) || !errors.As(err, &later) || later.After != memoryWait || !says(err, "the limit is 64 MiB") {
		t.Errorf("%v", err)
	}
	if err := run("1000"); !errors.Is(err, context.Canceled) {
		t.Errorf("a small process ended: %v", err)
	}
}
