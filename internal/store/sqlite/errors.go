package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/store"
)

// translate adds to an error of the driver a kind, chosen by its code, and the operation that failed. An
// error that already has a kind keeps it.
func translate(doing string, err error) error {
	if err == nil {
		return nil
	}
	for _, kind := range []error{store.ErrFormat, store.ErrFenced, store.ErrRefused, store.ErrUnavailable, store.ErrNotFound, store.ErrUnknown, store.ErrCorrupt, store.ErrDamaged} {
		if errors.Is(err, kind) {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	kind := store.ErrUnavailable
	code := sqlite.ErrCode(err)
	if code == sqlite.ResultIOErrSHMSize { // a reader needs the file with the suffix -shm, of 32 KiB, next to the database
		kind = store.ErrFull
	}
	switch code.ToPrimary() {
	case sqlite.ResultConstraint, sqlite.ResultTooBig, sqlite.ResultMismatch, sqlite.ResultRange:
		kind = store.ErrRefused
	case sqlite.ResultFull:
		kind = store.ErrFull
	case sqlite.ResultNotADB:
		return fmt.Errorf("%s: %w: the file is not a database; name another one with --db, or move this one away", doing, store.ErrFormat)
	case sqlite.ResultBusy:
		return fmt.Errorf("%s: %w: another program has locked the database; end that program", doing, kind)
	case sqlite.ResultCorrupt:
		return fmt.Errorf("%s: %w", doing, damaged(err))
	}
	return fmt.Errorf("%s: %w: %w", doing, kind, err)
}

func damaged(err error) error {
	return fmt.Errorf("%w: %w; restore a backup: skein db restore FILE --force", store.ErrDamaged, err)
}

// opening translates an error that occurred when a file was opened. A file that SQLite does not accept as a
// database may be a damaged database of Skein.
func opening(path string, err error) error {
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultNotADB && wasDatabase(path) {
		err = damaged(err)
	}
	return translate("open "+path, err)
}

// The parts of SQLite's file format by which a file with a damaged beginning is recognised.
const (
	pageBytes   = 4096 // the page size of every database that Skein makes
	magic       = "SQLite format 3\x00"
	idAt        = 68 // offset of the application's id in the header
	pagesLooked = 16
)

// wasDatabase reports whether a file looks like a database with a damaged first page. It does if a part of
// its header is intact, or if most of the pages after the first are pages of tables.
func wasDatabase(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	text := make([]byte, pageBytes*(1+pagesLooked))
	n, err := io.ReadFull(f, text)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false
	}
	text = text[:n]
	ours := len(text) >= idAt+4 && binary.BigEndian.Uint32(text[idAt:]) == applicationID
	if ours || bytes.HasPrefix(text, []byte(magic)) {
		return true
	}
	pages, tables := 0, 0
	for at := pageBytes; at+pageBytes <= len(text); at += pageBytes {
		pages++
		if isTree(text[at : at+pageBytes]) {
			tables++
		}
	}
	return pages > 0 && 2*tables > pages // the other pages hold long values, or are free
}

// isTree reports whether a page can be a page of a table or an index, judged by its first bytes.
func isTree(page []byte) bool {
	head := 8
	switch page[0] {
	case 2, 5: // a page with children
		head = 12
	case 10, 13:
	default:
		return false
	}
	free, cells, content := binary.BigEndian.Uint16(page[1:]), int(binary.BigEndian.Uint16(page[3:])), int(binary.BigEndian.Uint16(page[5:]))
	return free < pageBytes && head+2*cells <= content && content <= pageBytes && page[7] <= 60
}
