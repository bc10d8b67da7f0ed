package engine

import (
	"fmt"

	"skein.dev/skein/internal/admission"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// word is a message between owners of shards and the admission owner about the claim of a run. Claim.Asked
// identifies the request.
type word struct {
	Kind  wordKind    `json:"kind"`
	Run   dag.RunID   `json:"run"`
	Shard dag.ShardID `json:"shard,omitempty"` // the shard of the run that asks
	Claim *dag.Claim  `json:"claim"`
	// Share describes queue slots for the run's tasks. If it is set, Claim is not used.
	Share *dag.Share   `json:"share,omitempty"`
	Level dag.Priority `json:"level,omitempty"` // the priority of the run to which the share belongs
	Cause dag.Cause    `json:"cause,omitempty"` // the reason of a denial
	Why   string       `json:"why,omitempty"`
	Skip  bool         `json:"skip,omitempty"`
}

type wordKind string

// wordAsk, wordLeft, wordLend, wordShare and wordOver are sent to the admission owner. The admission owner
// sends the others.
const (
	wordAsk   wordKind = "ask"  // the run is queued, or wants its queue slot again
	wordLeft  wordKind = "left" // the run no longer asks for a queue slot or locks, and holds none
	wordLend  wordKind = "lend" // the run has returned its queue slot, and keeps its locks
	wordGrant wordKind = "grant"
	wordDeny  wordKind = "deny"

	wordShare  wordKind = "share"  // the totals of a share: the queue slots that its tasks need, and the slots that were returned
	wordOver   wordKind = "over"   // the run has ended, and its tasks hold no queue slots
	wordGave   wordKind = "gave"   // the total of queue slots granted to its tasks
	wordRefuse wordKind = "refuse" // the tasks get no slots
)

func (l *limits) say(to dag.ShardID, said word) {
	l.txn().letters[to] = append(l.txn().letters[to], letter{Word: &said})
}

// gateHere reports whether this writer is the admission owner. If it is, the transaction needs the fence of
// shard 0.
func (l *limits) gateHere() bool {
	if l.held(store.GateShard) == nil {
		return false
	}
	l.txn().common = true
	return true
}

// serve admits every run that can be admitted, after the transaction has freed locks and queue slots.
func (l *limits) serve() error {
	g := &l.admission
	if !g.Loaded {
		return nil
	}
	g.Tick(l.txn().now.Wall)
	if g.RunsMayPass() && !l.shell.Full() {
		l.gateHere()
	}
	return g.Serve(l.txn().now.Wall, &l.shell)
}

// serveTasks grants queue slots to the tasks whose turn it is.
func (l *limits) serveTasks() {
	g := &l.admission
	if !g.Loaded {
		return
	}
	if g.TasksMayPass() && !l.shell.FullForTasks() {
		l.gateHere()
	}
	g.ServeTasks(l.txn().now.Wall, &l.shell)
}

// shell carries out the decisions of the admission owner in the transaction being made. If this writer owns
// the run, the run continues in this transaction. Otherwise the run's owner gets a message.
type shell struct{ l *limits }

// Serial returns the number of the transaction in the admission owner's shard.
func (s *shell) Serial() int64 { return s.l.held(store.GateShard).Seq + 1 }

func (s *shell) Full() bool         { return s.l.txn().rows >= grantRowsMax }
func (s *shell) FullForTasks() bool { return s.l.txn().rows >= takeMax*rowsPerItem }
func (s *shell) Spend()             { s.l.txn().rows += rowsPerItem }

func (s *shell) Paced(queue string, until dag.Micros) {
	paces := &s.l.txn().batch.QueuePaces
	for i := range *paces {
		if p := &(*paces)[i]; p.Name == queue {
			p.Paced = until
			return
		}
	}
	*paces = append(*paces, store.QueuePace{Name: queue, Paced: until})
}

func (s *shell) Grant(c *admission.Claimant) (asks bool, err error) {
	if s.l.held(c.Shard) == nil {
		s.Spend()
		s.l.say(c.Shard, word{Kind: wordGrant, Run: c.Run, Claim: c.Claim})
		return true, nil
	}
	return s.l.goOn(c.Run, c.Claim)
}

func (s *shell) Deny(c *admission.Claimant, d *admission.Denial) error {
	s.Spend()
	d = bounded(d)
	if s.l.held(c.Shard) == nil {
		s.l.say(c.Shard, denyWord(c, d))
		return nil
	}
	return s.l.sendAway(c.Run, c.Claim, d)
}

func (s *shell) Give(c *admission.Crew) {
	given := c.Share
	if s.l.held(c.Shard) == nil {
		s.l.say(c.Shard, word{Kind: wordGave, Run: c.Run, Share: &given})
		return
	}
	s.l.receiveShare(c.Run, &given)
}

func (s *shell) Refuse(c *admission.Crew, why string) {
	s.Spend()
	if s.l.held(c.Shard) == nil {
		share := c.Share
		s.l.say(c.Shard, word{Kind: wordRefuse, Run: c.Run, Share: &share, Why: why})
		return
	}
	s.l.refuseTasks(c.Run, c.Share.Queue, why)
}

// bounded returns the denial with a text that every store can hold: it shortens the text of a deadlock, which
// may name many runs.
func bounded(d *admission.Denial) *admission.Denial {
	if d == nil || d.Cause != dag.CauseCycle {
		return d
	}
	return &admission.Denial{Cause: d.Cause, Why: clean(d.Why), Skip: d.Skip}
}

func denyWord(c *admission.Claimant, d *admission.Denial) word {
	return word{Kind: wordDeny, Run: c.Run, Claim: c.Claim, Cause: d.Cause, Why: d.Why, Skip: d.Skip}
}

// comeIn adds a new claim. If the store cannot be read, it abandons the transaction.
func (l *limits) comeIn(c *admission.Claimant) (why string, d *admission.Denial) {
	why, d, err := l.admission.Ask(c, l.txn().now.Wall, &l.shell)
	if err != nil {
		l.broken(err)
	}
	return why, bounded(d)
}

// hearClaim processes a message about a claim, as the admission owner.
func (l *limits) hearClaim(said *word) error {
	if !l.gateHere() {
		return fmt.Errorf("%w: this node is not the admission owner; send the message to the owner", errkind.ErrUnavailable)
	}
	switch said.Kind {
	case wordLeft:
		l.admission.Leave(said.Run, said.Claim.Asked)
	case wordLend:
		l.admission.Lend(said.Run, said.Claim.Asked)
	case wordAsk:
		if now, err := l.stillAsks(said); !now {
			return err
		}
		claim := *said.Claim
		in := &admission.Claimant{Run: said.Run, Shard: said.Shard, Claim: &claim}
		if claim.Stage == dag.ClaimAgain {
			l.admission.AskAgain(in)
			return nil
		}
		if !l.admission.Expect(in.Run, claim.Asked) {
			return nil
		}
		_, d := l.comeIn(in)
		switch {
		case d != nil:
			l.say(in.Shard, denyWord(in, d))
		case claim.Stage == dag.ClaimGranted:
			return l.grantAsked(in)
		}
	}
	return nil
}

// grantAsked grants a claim at once and notifies the run.
func (l *limits) grantAsked(c *admission.Claimant) error {
	asks, err := l.shell.Grant(c)
	if err == nil && !asks {
		l.admission.Leave(c.Run, c.Claim.Asked)
	}
	return err
}
