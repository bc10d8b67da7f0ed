package session

import workerv1 "skein.dev/skein/sdk/api/worker/v1"

// Name identifies an attempt.
type Name struct {
	Run   string
	Task  int32
	Token int64
}

// NameOf returns the name of an attempt. For nil it returns the zero name, which no attempt has.
func NameOf(a *workerv1.Attempt) Name { return Name{a.GetRun(), a.GetTask(), a.GetToken()} }

// recentMax bounds the number of attempts with acknowledged results that are remembered. A remembered attempt
// is not started again.
const recentMax = 16 << 10

// recent remembers the attempts that ended last.
type recent struct {
	names []Name
	next  int
	in    map[Name]bool
}

func newRecent(n int) recent { return recent{names: make([]Name, n), in: map[Name]bool{}} }

func (p *recent) add(n Name) {
	if p.in[n] {
		return
	}
	delete(p.in, p.names[p.next])
	p.names[p.next], p.in[n] = n, true
	p.next = (p.next + 1) % len(p.names)
}
