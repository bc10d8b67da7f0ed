package dag

import "testing"

// benchRun takes one run from its submission to its end: one transaction for the assignments and one for each
// report.
func benchRun(b *testing.B, g *Graph) {
	b.ReportAllocs()
	var fx Effects
	var c Changes
	var held []TaskID
	now := Now{Wall: 1}
	h := Header{ID: testRun, Created: 1, User: "ada", Origin: OriginAPI}
	for b.Loop() {
		r := NewRun(h)
		r.Step(&Event{Kind: EvSubmit, Graph: g, Handler: 1}, now, &fx)
		held = held[:0]
		for !r.State.Terminal() {
			for r.Ready() > 0 {
				task := r.NextReady()
				held = append(held, task)
				r.Step(&Event{Kind: EvAssign, Task: task, Handler: 1}, now, &fx)
			}
			r.Flush(&c, 1)
			task := held[0]
			held = append(held[:0], held[1:]...)
			r.Step(&Event{Kind: EvReport, Task: task, Token: 1, Handler: 1,
				Result: Result{State: AttemptSucceeded, Exited: true, Started: 1, Finished: 1}}, now, &fx)
		}
		r.Flush(&c, 1)
		c.Reset()
		fx.Reset()
	}
}

func BenchmarkRunOf1Task(b *testing.B) {
	g, err := NewGraph(spec("a"))
	must(err)
	benchRun(b, g)
}

func BenchmarkRunOf9Tasks(b *testing.B) {
	g, err := NewGraph(jobCenter("7"))
	must(err)
	benchRun(b, g)
}

func BenchmarkFan100(b *testing.B) {
	g, err := NewGraph(wide(102))
	must(err)
	benchRun(b, g)
}

func BenchmarkNewGraph100000(b *testing.B) {
	s := layered(100_000)
	b.ReportAllocs()
	for b.Loop() {
		_, err := NewGraph(s)
		must(err)
	}
}

func BenchmarkLoad9Tasks(b *testing.B) {
	g, err := NewGraph(jobCenter("7"))
	must(err)
	row := RunRow{Header: Header{ID: testRun}, State: RunRunning, Generation: 1, SplitAt: 1, StartedAt: 1}
	attempts := []AttemptRow{
		{Task: 0, Token: 1, Generation: 1, State: AttemptSucceeded}, {Task: 1, Token: 1, Generation: 1, State: AttemptSucceeded},
		{Task: 2, Token: 1, Generation: 1, State: AttemptAssigned}, {Task: 3, Token: 1, Generation: 1, State: AttemptAssigned},
	}
	b.ReportAllocs()
	var fx Effects
	for b.Loop() {
		_, err := Load(&row, g, attempts, Now{Wall: 1}, &fx)
		must(err)
		fx.Reset()
	}
}
