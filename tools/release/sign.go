package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// signer and purpose are the name and the namespace of the signatures of releases, as the documents tell
// people to verify them.
const (
	signer  = "packages@skein.dev"
	purpose = "skein-release"
)

// keyVariable holds the text of the key in a CI, which keeps secrets in variables.
const keyVariable = "SKEIN_RELEASE_KEY"

var (
	// errUnsigned: there is no key.
	errUnsigned = errors.New("SHA256SUMS is not signed: there is no key (make release SIGN=FILE, or the key in " + keyVariable + ")")
	// errStranger: there is a key, but the list of accepted keys does not have it.
	errStranger = errors.New("signatures of this key are not accepted")
)

// signing prepares the signature before the long build. It returns a function that signs a file into
// FILE.sig, or nil if there is no key. In CI, a missing key is an error. A key that people cannot verify,
// because deploy/allowed_signers does not have it, is an error, too.
func (r *release) signing() (sign func(file string) error, end func(), err error) {
	end = func() {}
	text := os.Getenv(keyVariable)
	if r.key == "" && text == "" {
		if os.Getenv("CI") == "true" {
			return nil, end, errUnsigned
		}
		fmt.Fprintln(os.Stderr, "release:", errUnsigned)
		return nil, end, nil
	}
	folder, err := os.MkdirTemp("", "skein-release") // it has the mode 700
	if err != nil {
		return nil, end, err
	}
	end = func() { os.RemoveAll(folder) } //nolint:errcheck // a folder for temporary files
	key := r.key
	if key == "" {
		key = filepath.Join(folder, "key")
		if err := os.WriteFile(key, []byte(strings.TrimSpace(text)+"\n"), 0o600); err != nil {
			return nil, end, err
		}
	}
	sign = func(file string) error { return r.sign(key, file) }
	probe := filepath.Join(folder, "probe")
	if err := os.WriteFile(probe, []byte("probe\n"), 0o600); err != nil {
		return nil, end, err
	}
	return sign, end, sign(probe)
}

// sign writes the signature of a file, and verifies it as people do.
func (r *release) sign(key, file string) error {
	made := exec.Command("ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", purpose, file)
	made.Stdin, made.Stderr = os.Stdin, os.Stderr
	if err := made.Run(); err != nil {
		return fmt.Errorf("sign with the key %s: %w", key, err)
	}
	signers := r.signers
	if signers == "" {
		signers = filepath.Join(r.root, "deploy/allowed_signers")
	}
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	verified := exec.Command("ssh-keygen", "-Y", "verify", "-f", signers, "-I", signer, "-n", purpose, "-s", file+".sig")
	verified.Stdin = in
	if out, err := verified.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s; add the line '%s namespaces=\"%s\" PUBLIC KEY' to the file, and commit it before the release",
			signers, errStranger, strings.TrimSpace(string(out)), signer, purpose)
	}
	return nil
}
