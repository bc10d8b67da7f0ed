package audit

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Checkpoint is the data that a node signs: the root of the tree at a size. Its text is a checkpoint of the
// format tlog-checkpoint (c2sp.org), so other tools can read it. The lines after the root are specific to
// Skein.
type Checkpoint struct {
	Origin string // the name of the log, which contains the cluster's UUID
	Size   int64
	Root   []byte
	// Era is the era of the database, and Base the size of the tree when that era began.
	Era  dag.Era
	Base int64
	At   time.Time // the time of the signature, by the clock of the node
	// Edge contains the hashes of the full subtrees. With them, the signer can continue after a restart
	// without reading the earlier rows again.
	Edge []byte
}

// ErrCheckpoint is returned for a text that is no checkpoint, or that no known key has signed.
var ErrCheckpoint = errors.New("no valid checkpoint")

// NewOrigin returns the name of the audit log of a cluster.
func NewOrigin(cluster string) string { return "skein.dev/audit/" + cluster }

func (c *Checkpoint) text() string {
	return fmt.Sprintf("%s\n%d\n%s\nera %d from %d\nat %s\nedge %s\n", c.Origin, c.Size, base64.StdEncoding.EncodeToString(c.Root),
		c.Era, c.Base, c.At.UTC().Format(time.RFC3339Nano), base64.StdEncoding.EncodeToString(c.Edge))
}

// Sign returns the signed text of a checkpoint.
func (c *Checkpoint) Sign(by note.Signer) ([]byte, error) {
	signed, err := note.Sign(&note.Note{Text: c.text()}, by)
	if err != nil {
		return nil, fmt.Errorf("sign a checkpoint of the audit log: %w", err)
	}
	return signed, nil
}

// Open reads a signed checkpoint. It returns ErrCheckpoint unless one of the keys has signed it.
func Open(signed []byte, keys note.Verifiers) (Checkpoint, error) {
	n, err := note.Open(signed, keys)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	return parse(n.Text)
}

func parse(text string) (c Checkpoint, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 7 || lines[6] != "" {
		return c, fmt.Errorf("%w: it has %d lines instead of 6", ErrCheckpoint, len(lines)-1)
	}
	c.Origin = lines[0]
	if c.Size, err = strconv.ParseInt(lines[1], 10, 64); err != nil || c.Size < 0 {
		return c, fmt.Errorf("%w: the size is %.40q, and not a number from 0", ErrCheckpoint, lines[1])
	}
	if c.Root, err = base64.StdEncoding.DecodeString(lines[2]); err != nil || len(c.Root) != store.AuditHashBytes {
		return c, fmt.Errorf("%w: the root is %.60q, and not a SHA-256 hash in base64", ErrCheckpoint, lines[2])
	}
	era, base, ok := strings.Cut(strings.TrimPrefix(lines[3], "era "), " from ")
	n, err := strconv.ParseInt(era, 10, 64)
	if err != nil || !ok || n < 0 {
		return c, fmt.Errorf("%w: the line of the era is %.60q, and not: era NUMBER from SIZE", ErrCheckpoint, lines[3])
	}
	c.Era = dag.Era(n)
	if c.Base, err = strconv.ParseInt(base, 10, 64); err != nil || c.Base < 0 || c.Base > c.Size {
		return c, fmt.Errorf("%w: the era of %.60q begins at no size from 0 to %d", ErrCheckpoint, lines[3], c.Size)
	}
	if c.At, err = time.Parse(time.RFC3339Nano, strings.TrimPrefix(lines[4], "at ")); err != nil {
		return c, fmt.Errorf("%w: its time is %.60q", ErrCheckpoint, lines[4])
	}
	packed, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(lines[5], "edge "))
	if err != nil {
		return c, fmt.Errorf("%w: its edge is %.60q", ErrCheckpoint, lines[5])
	}
	e, err := newEdge(c.Size, packed)
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	root, err := e.root()
	if err != nil || !bytes.Equal(root, c.Root) {
		return c, fmt.Errorf("%w: its edge has another root", ErrCheckpoint)
	}
	if c.Edge = packed; c.text() != text {
		return c, fmt.Errorf("%w: it is not in the form that a node writes", ErrCheckpoint)
	}
	return c, nil
}

// signature is the beginning of a line with a signature.
const signature = "— "

// Split divides a file into its signed checkpoints. An incomplete checkpoint, such as the last one after a
// crash, is a separate part, which Open refuses.
func Split(file []byte) (all [][]byte) {
	var one []byte
	signed := false
	for line := range bytes.Lines(file) {
		is := bytes.HasPrefix(line, []byte(signature))
		if signed && !is {
			all, one, signed = append(all, one), nil, false
		}
		if len(one) == 0 && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		one, signed = append(one, line...), signed || is
	}
	if len(one) > 0 {
		all = append(all, one)
	}
	return all
}
