package main

import (
	"io"

	"skein.dev/skein/internal/atomicfile"
)

// secretOut is the file of --out, for a secret that is shown only once. The file is opened before the secret
// is made, so that no secret is lost. Without --out there is no file.
type secretOut struct{ file *atomicfile.Draft }

func openSecret(out string) (secretOut, error) {
	if out == "" {
		return secretOut{}, nil
	}
	file, err := atomicfile.Replace(out, 0o600)
	return secretOut{file}, err
}

// keep writes a secret to the file and clears it, so that it is not printed. If that fails, keep does not
// clear the secret, and its error has the hint.
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

// Discard removes the new file if it has not replaced the old one.
func (o secretOut) Discard() {
	if o.file != nil {
		o.file.Discard()
	}
}
