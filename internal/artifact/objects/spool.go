package objects

import (
	"context"

	"skein.dev/skein/internal/artifact"
)

// Spool is an artifact.Store that receives files in a folder of this machine. Its commit writes them to
// objects, and then removes them from the folder. A home receives the artifacts of workers in this way: the
// store of objects gets each file as a whole, even if its pieces arrive slowly.
type Spool struct {
	*Store
	Folder artifact.Folder
}

var _ artifact.Store = Spool{}

// Begin implements artifact.Store.
func (s Spool) Begin(ctx context.Context, ref artifact.Ref) (artifact.Deposit, error) {
	d, err := s.Folder.Begin(ctx, ref)
	return &spooled{d, s, ref}, err
}

type spooled struct {
	artifact.Deposit
	s   Spool
	ref artifact.Ref
}

// Commit implements artifact.Deposit.
func (d *spooled) Commit() error {
	// Two workers may send the files of one attempt, if the first was wrongly declared dead. The folder keeps
	// the files of the first worker, and the store of objects decides.
	err := d.Deposit.Commit()
	if err == nil || err == artifact.ErrKept { //nolint:errorlint // Commit returns it as it is
		err = d.s.Keep(context.Background(), d.ref, d.s.Folder)
	}
	_ = d.s.Folder.Forget(d.ref) // the next start removes the remaining files
	return err
}
