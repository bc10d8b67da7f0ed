package audit

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"skein.dev/skein/internal/atomicfile"
)

const (
	// keyName is the name in every node's key. The hash distinguishes the keys.
	keyName = "skein-audit"
	// fileBytesMax bounds a file of checkpoints. When a file is larger, every second checkpoint of its older
	// half is removed.
	fileBytesMax = 8 << 20
	// readBytesMax bounds the reading of a file of checkpoints.
	readBytesMax = 4 * fileBytesMax
)

// PublicSuffix is the end of the name of the file with the public key.
const PublicSuffix = ".pub"

// Key reads the key of a node, or makes one: the private key in a file that only the owner can read, and
// next to it the public key. Several processes may make the key at the same time: one of them wins, and all
// use its key.
func Key(path string) (note.Signer, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = newKey(path); err == nil {
			text, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the key of the audit log: %w", err)
	}
	private := strings.TrimSpace(string(text))
	signer, err := note.NewSigner(private)
	if err != nil {
		return nil, fmt.Errorf("the key of the audit log, %s: %w; restore the file, or remove it to begin with another key", path, err)
	}
	if err := writePublic(path+PublicSuffix, private, signer.KeyHash()); err != nil {
		return nil, fmt.Errorf("write the public key of the audit log: %w", err)
	}
	return signer, nil
}

// newKey writes a private key unless there is one.
func newKey(path string) error {
	private, _, err := note.GenerateKey(rand.Reader, keyName)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		return err
	}
	err = atomicfile.Create(path, []byte(private+"\n"), 0o600)
	if errors.Is(err, fs.ErrExist) { // another process has made the key in the meantime
		return nil
	}
	return err
}

// writePublic writes the public key for a private key, unless the file already has it. So the two keys match,
// also after a crash or if another process wrote the file.
func writePublic(path, private string, hash uint32) error {
	if is, err := PublicKey(path); err == nil && is.KeyHash() == hash {
		return nil
	}
	parts := strings.SplitN(private, "+", 5) // PRIVATE+KEY+NAME+HASH+KEY, and KEY may have a plus sign, too
	encoded := parts[len(parts)-1]
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(raw) != 1+ed25519.SeedSize { // NewSigner has accepted the key, so it has this form
		return fmt.Errorf("the private key has %d bytes instead of %d", len(raw), 1+ed25519.SeedSize)
	}
	public, _ := ed25519.NewKeyFromSeed(raw[1:]).Public().(ed25519.PublicKey)
	text, err := note.NewEd25519VerifierKey(keyName, public)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, []byte(text+"\n"), 0o644)
}

// PublicKey reads a public key from the file that Key has written.
func PublicKey(path string) (note.Verifier, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the public key of the audit log: %w", err)
	}
	v, err := note.NewVerifier(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("the public key of the audit log, %s: %w", path, err)
	}
	return v, nil
}

// File is a node's file of checkpoints. One process writes it.
type File struct {
	path string
	keys note.Verifiers
}

// NewFile returns the file of checkpoints that a key signs.
func NewFile(path string, key note.Verifier) *File {
	return &File{path, note.VerifierList(key)}
}

// Checkpoints reads the valid checkpoints of a file, and counts the parts that are not valid.
func Checkpoints(path string, keys note.Verifiers) (all []Checkpoint, invalid int, err error) {
	data, err := readFile(path)
	if err != nil {
		return nil, 0, err
	}
	for _, part := range Split(data) {
		c, err := Open(part, keys)
		if err != nil {
			invalid++
			continue
		}
		all = append(all, c)
	}
	return all, invalid, nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > readBytesMax {
		return nil, fmt.Errorf("the checkpoints of the audit log: %s has %d bytes; at most %d are read", path, info.Size(), readBytesMax)
	}
	if err != nil {
		return nil, fmt.Errorf("the checkpoints of the audit log: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the checkpoints of the audit log: %w", err)
	}
	return data, nil
}

// Last returns the last checkpoint of a log. It cuts off an unfinished checkpoint that a crash has left.
func (f *File) Last(origin string) (last Checkpoint, found bool, err error) {
	data, err := readFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return last, false, nil
	}
	if err != nil {
		return last, false, err
	}
	parts, torn := Split(data), 0
	for i, part := range parts {
		c, err := Open(part, f.keys)
		switch {
		case err == nil && c.Origin == origin:
			last, found = c, true
		case err != nil && i == len(parts)-1 && (!strings.Contains(string(part), "\n"+signature) || !strings.HasSuffix(string(part), "\n")):
			torn = len(part)
		}
	}
	if torn > 0 {
		err = f.replace(data[:len(data)-torn])
	}
	return last, found, err
}

// Append writes a signed checkpoint durably.
func (f *File) Append(signed []byte) (err error) {
	if err := f.thin(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("write a checkpoint of the audit log: %w", err)
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = file.Write(append(signed, '\n'))
		if err == nil {
			err = file.Sync()
		}
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("write a checkpoint of the audit log: %w", err)
	}
	return nil
}

// thin removes checkpoints until the file is within its bound.
func (f *File) thin() error {
	info, err := os.Stat(f.path)
	if err != nil || info.Size() < fileBytesMax {
		return nil //nolint:nilerr // Append reports the fault of the file
	}
	data, err := readFile(f.path)
	if err != nil {
		return err
	}
	var kept []byte
	parts := Split(data)
	for i, part := range parts {
		if i >= len(parts)/2 || i%2 == 0 {
			kept = append(append(kept, part...), '\n')
		}
	}
	return f.replace(kept)
}

func (f *File) replace(data []byte) error {
	if err := atomicfile.Write(f.path, data, 0o600); err != nil {
		return fmt.Errorf("write the checkpoints of the audit log: %w", err)
	}
	return nil
}
