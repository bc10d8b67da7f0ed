package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"skein.dev/skein/internal/store"
)

// Head is the content of the first line of an export.
type Head struct {
	Format string `json:"format"`
	Origin string `json:"origin"`
	// Keep is the age after which rows are deleted, in ns. 0 means never.
	Keep time.Duration   `json:"keep_ns"`
	Tree store.AuditTree `json:"tree"`
}

// ErrExport means that a text is no export of an audit log.
var ErrExport = errors.New("no export of an audit log")

// lineBytesMax bounds one line of an export.
const lineBytesMax = 1 << 20

// Export writes the state of the tree as one line, and then each row as one line, in the order of the index.
// The fields of a row are those of its leaf. Times are in µs since 1970.
func Export(ctx context.Context, h Head, log store.AuditLog, to io.Writer) error {
	h.Format = leafFormat
	w := bufio.NewWriterSize(to, 64<<10)
	lines := json.NewEncoder(w)
	err := lines.Encode(h)
	for at := h.Tree.First; err == nil; {
		var rows []store.Audit
		if rows, err = log.AuditLeaves(ctx, at, stepRows); err != nil || len(rows) == 0 {
			break
		}
		if rows[0].Index > at {
			var since store.AuditTree
			// without this second read, rows that retention deletes during the export would look like
			// tampering
			if since, err = log.AuditTree(ctx); err == nil && since.First > at {
				err = errors.New("retention has deleted rows meanwhile; export again")
			}
		}
		for i := 0; i < len(rows) && err == nil; i++ {
			if rows[i].Index >= h.Tree.Size {
				var since store.AuditTree
				if since, err = log.AuditTree(ctx); err != nil || rows[i].Index < since.Size {
					break // the row was added after this export had begun, and belongs to a later export
				}
			}
			err = lines.Encode(rows[i])
		}
		if at = rows[len(rows)-1].Index + 1; len(rows) < stepRows || at > h.Tree.Size {
			break
		}
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return fmt.Errorf("export the audit log: %w", err)
	}
	return nil
}

// Read passes the rows of an export to a verifier. begin makes the verifier from the first line.
func Read(from io.Reader, begin func(Head) (*Verifier, error)) (Report, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, lineBytesMax)
	var h Head
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &h) != nil || h.Format != leafFormat {
		return Report{}, errors.Join(fmt.Errorf("%w: the first line is not the state of a tree", ErrExport), lines.Err())
	}
	v, err := begin(h)
	if err != nil {
		return Report{}, err
	}
	for n := 2; lines.Scan(); n++ {
		var r store.Audit
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return Report{}, fmt.Errorf("%w: line %d: %w", ErrExport, n, err)
		}
		if err := v.Row(&r); err != nil {
			return Report{}, err
		}
	}
	if err := lines.Err(); err != nil {
		return Report{}, fmt.Errorf("read the export: %w", err)
	}
	return v.Report(), nil
}
