package remote

import (
	"encoding/json"
	"errors"
	"fmt"

	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/extension"
	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/worker"
)

// Furnish adds to the job of a kind the data that only this machine has: the program, the rules of egress,
// and the settings of a kind of this program. It checks the input. The error is the reason why the attempt
// cannot start.
func Furnish(job *worker.Job, book *extension.Book, rules egress.Rules) error {
	if book == nil {
		return fmt.Errorf("%w %s: it has no extensions", extension.ErrUnknown, job.Kind.Name)
	}
	var in kind.Input
	if err := json.Unmarshal(job.Kind.Input, &in); err != nil {
		return errors.New("the input of the kind cannot be read: the home node has another version")
	}
	cmd, err := book.Command(job.Kind.Name, in.With, job.Kind.Release)
	if err != nil {
		return err
	}
	if cmd.House {
		if in.Egress, err = json.Marshal(rules); err != nil {
			return err
		}
		in.Kind, in.Settings, in.Secrets = cmd.Name, cmd.Settings, job.Secrets
		in.CPU, in.Memory = job.CPU, job.Memory
		if job.Kind.Input, err = json.Marshal(&in); err != nil {
			return err
		}
	} else {
		job.Kind.Label = fmt.Sprintf("kind %s, version %s, digest %.12s", cmd.Name, cmd.Version, cmd.Digest)
	}
	job.Argv, job.Kind.Name, job.Kind.House, job.Kind.Folder = cmd.Argv, cmd.Name, cmd.House, cmd.Folder
	job.Kind.Boxed, job.Kind.Prepares = cmd.Boxed, cmd.Prepares
	return nil
}
