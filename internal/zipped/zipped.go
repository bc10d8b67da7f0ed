// Package zipped reads files that are embedded in the program in one compressed archive.
//
// go:embed keeps files as they are. Texts such as SQL statements are a fifth of their size if
// they are compressed together. So the archive is a zip file whose entries are stored, compressed as a whole
// by gzip. It lies in the repository beside the files that it holds; a test compares both.
package zipped

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"sync"
)

// FS is the read-only file system of an archive. The archive is unpacked at the first read, and stays in
// memory. All methods may be called at the same time.
type FS struct{ open func() (*zip.Reader, error) }

// New returns the file system of an archive that Pack made.
func New(archive []byte) FS {
	return FS{sync.OnceValues(func() (*zip.Reader, error) { return Open(archive) })}
}

// ReadDir returns the entries of a folder, ordered by name.
func (f FS) ReadDir(name string) ([]fs.DirEntry, error) {
	files, err := f.open()
	if err != nil {
		return nil, err
	}
	return fs.ReadDir(files, name)
}

// ReadFile returns the content of a file.
func (f FS) ReadFile(name string) ([]byte, error) {
	files, err := f.open()
	if err != nil {
		return nil, err
	}
	return fs.ReadFile(files, name)
}

// Open unpacks an archive that Pack made.
func Open(archive []byte) (*zip.Reader, error) {
	in, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	return zip.NewReader(bytes.NewReader(data), int64(len(data)))
}

// Pack writes an archive of the named files, with the names as they are given.
func Pack(w io.Writer, files fs.FS, names []string) error {
	out, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := zip.NewWriter(out)
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		one, err := archive.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			return err
		}
		if _, err := one.Write(text); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return out.Close()
}
