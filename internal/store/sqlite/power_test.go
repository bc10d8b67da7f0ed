package sqlite

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// logHead is the length of the head of a log, which has its salts.
const logHead = 32

// kernelPage is the size of the parts of a file that are on the disk, or not, when the power fails.
const kernelPage = 4096

// disk knows the data that are surely on the disk, and the data that only the kernel has. From both it makes
// the files that may remain when the power fails.
type disk struct {
	t      *testing.T
	rnd    *rand.Rand
	path   string
	synced []byte // the log as it was last synced
	copied []byte // a copy of the database; every page that has changed since then is in the log
	hold   chan chan struct{}

	restarts int // how often the log was started over
}

func newDisk(t *testing.T, path string) *disk {
	p := &disk{t: t, rnd: rand.New(rand.NewPCG(1, 2)), path: path}
	p.synced, p.copied = p.read(path+"-wal"), p.read(path)
	return p
}

func (p *disk) read(path string) []byte {
	p.t.Helper()
	all, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// sync is a DB's syncFile. If hold is set, it notifies the test by hold, and waits.
func (p *disk) sync(f *os.File) error {
	if p.hold != nil {
		let := make(chan struct{})
		p.hold <- let
		<-let
	}
	all, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	if err == nil {
		err = syncData(f)
	}
	if err == nil {
		p.synced = all
	}
	return err
}

// checkpoint copies the log into the database, as far as readers allow.
func (p *disk) checkpoint() {
	p.t.Helper()
	conn, err := sqlite.OpenConn(p.path, sqlite.OpenReadWrite)
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close()
	if err := sqlitex.ExecuteScript(conn, "PRAGMA wal_checkpoint(PASSIVE)", nil); err != nil {
		p.t.Error(err)
	}
}

// mix returns a file of which some pages are old and some are new.
func (p *disk) mix(was, is []byte) []byte {
	out, share := bytes.Clone(is), p.rnd.Float64()
	for at := 0; at < len(is); at += kernelPage {
		if p.rnd.Float64() < share {
			page := out[at:min(at+kernelPage, len(is))]
			clear(page) // a page that was never written
			copy(page, was[min(at, len(was)):])
		}
	}
	if len(is) > len(was) && p.rnd.IntN(2) == 0 {
		out = out[:len(was)+p.rnd.IntN(len(is)-len(was))]
	}
	return out
}

// cut returns the runs that are found if the power fails now.
func (p *disk) cut() map[dag.RunState]int {
	p.t.Helper()
	log, db := p.read(p.path+"-wal"), p.read(p.path)
	if !bytes.Equal(log[:logHead], p.synced[:logHead]) { // SQLite has synced the database, started the log over, and synced its head
		p.copied = db
		copy(p.synced, log[:logHead])
		p.restarts++
	}
	found := filepath.Join(p.t.TempDir(), "skein.db")
	for path, data := range map[string][]byte{found: p.mix(p.copied, db), found + "-wal": p.mix(p.synced, log)} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	d, err := Open(found)
	if err != nil {
		p.t.Fatal(err)
	}
	runs := (&owner{t: p.t, d: d}).runs()
	if err := d.Close(); err != nil {
		p.t.Error(err)
	}
	return runs
}

// TestPowerCuts: the power can fail at any time, with any part of the unsynced data on the disk. Afterwards
// all transactions whose commit has returned are found. Every transaction is found as a whole or not at all,
// and none that was only written ahead.
func TestPowerCuts(t *testing.T) {
	d, path := openTemp(t)
	o := newOwner(t, d)
	p := newDisk(t, path)
	d.syncFile = p.sync
	running, succeeded := 0, 0
	var last []dag.RunRow
	// The steps have a generator of their own. The disk draws once per page, so with its generator the sizes of
	// the files would decide whether the log starts over.
	steps := rand.New(rand.NewPCG(3, 4))
	for round := range 40 {
		b := o.batch(0, 1+steps.IntN(30), last)
		if steps.IntN(2) == 0 {
			o.stage(b)
		}
		if steps.IntN(5) == 0 {
			p.checkpoint()
		}
		is := p.cut()
		if is[dag.RunRunning] != running || is[dag.RunSucceeded] != succeeded {
			t.Fatalf("round %d: %v are found, %d running and %d succeeded were committed", round, is, running, succeeded)
		}
		after := [2]int{running + len(b.RunInserts) - len(last), succeeded + len(last)}
		is = p.during(o, b)
		found := [2]int{is[dag.RunRunning], is[dag.RunSucceeded]}
		if found != after && found != [2]int{running, succeeded} {
			t.Fatalf("round %d: in the midst of a commit %v are found, want %d and %d, or %v", round, is, running, succeeded, after)
		}
		running, succeeded, last = after[0], after[1], b.RunInserts
	}
	if p.restarts == 0 {
		t.Error("the log never started over")
	}
}

// during commits a batch, and returns the runs that are found if the power fails before the sync.
func (p *disk) during(o *owner, b *store.Batch) map[dag.RunState]int {
	p.hold = make(chan chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		o.commit(b)
	}()
	var let chan struct{}
	select {
	case let = <-p.hold:
	case <-over:
		p.t.Fatal("a commit has returned, and nothing was synced")
	}
	is := p.cut()
	p.hold = nil
	close(let)
	<-over
	return is
}
