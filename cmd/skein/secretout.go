package main

import (
	"io"

	"skein.dev/skein/internal/atomicfile"
)

// secretOut is the file of --out for a secret that is shown once. It is opened before the secret is made, so
// that no secret is lost. Without --out it has no file.
type secretOut struct{ file *atomicfile.Draft }

func openSecret(out string) (secretOut, error) {
	if out == "" {
		return secretOut{}, nil
	}
	file, err := atomicfile.Replace(out, 0o600)
	return secretOut{file}, err
}

// keep writes a secret to the file and clears it, so that it is not printed. If that fails, the secret stays, and
// the error has the hint.
func (o secretOut) keep(secret *string, hinted string) error {
	if o.file == nil {
		return nil
	}
	_, err := io.WriteString(o.file, *secret+"\n")
	if err == nil {
		err = o.file.Put()
	}
	if err != nil {
		return hint(err, hinted)
	}
	*secret = ""
	return nil
}

func (o secretOut) path() string { return o.file.Path() }

// Discard removes a file that was not put in its place.
func (o secretOut) Discard() {
	if o.file != nil {
		o.file.Discard()
	}
}
