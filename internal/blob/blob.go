// Package blob stores objects in a store with the S3 protocol.
//
// [Open] opens the store that a setting names. An object is written as a whole or not at all, and a reader
// sees an object as soon as its Put has returned. The package does not interpret the objects: packages
// artifact/objects and logs/segments do.
//
// Reading order: blob.go (the contract), location.go (the setting), s3.go, call.go, sign.go, retry.go,
// credentials.go, cloud.go. Package blobtest tests the contract for every implementation.
package blob

import (
	"context"
	"errors"
	"io"
	"time"
)

// Info describes an object.
type Info struct {
	Key      string
	Size     int64
	Modified time.Time
	ETag     string // identifies the version of the object, without quotation marks; "" if the store has none
}

// PutOptions are the options of one Put.
type PutOptions struct {
	// IfAbsent writes the object only if no object has its key. The content has at most PartSize bytes.
	IfAbsent bool
	// SHA256 is the hexadecimal digest of the content. It is "" if it is not known. If the content has
	// another digest, nothing is written.
	SHA256 string
}

// PartSize is the size up to which an object is written in one request. A larger object is written in parts
// of this size.
const PartSize = 16 << 20

// KeyMax bounds the bytes of a key including the prefix of its store.
const KeyMax = 1024

// Store stores objects. Any goroutine may call its methods.
type Store interface {
	// Put writes an object of size bytes. If the options require a new object and one with this key exists,
	// it returns ErrExists. If an answer was lost, that object may have been written by the same call. After
	// another error, the whole object or nothing may be written.
	Put(ctx context.Context, key string, content io.ReaderAt, size int64, options PutOptions) error
	// Open reads n bytes of an object from an offset on. If n < 0, it reads the rest. It returns
	// fs.ErrNotExist if there is no such object. If the object is shorter, the content ends early.
	Open(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error)
	// List returns the objects whose keys begin with prefix and are greater than after, at most limit of them,
	// in the order of their keys.
	List(ctx context.Context, prefix, after string, limit int) ([]Info, error)
	// Delete deletes objects. Objects that do not exist are no error.
	Delete(ctx context.Context, keys ...string) error
	// Abort ends the unfinished Puts of keys with this prefix that began before an instant. Processes that
	// died have left them.
	Abort(ctx context.Context, prefix string, before time.Time) error
	// Name returns the name of the store for people.
	Name() string
}

// Errors of a Store. Except for these and fs.ErrNotExist, an error may disappear by itself.
var (
	// ErrExists means that an object with this key exists.
	ErrExists = errors.New("an object with this key exists already")
	// ErrRefused means that the store refuses the call, because the credentials, their rights, the bucket or
	// the region are wrong. The calls fail until the settings are changed.
	ErrRefused = errors.New("the object store refuses the call")
	// ErrCorrupt means that the content does not have the announced size or checksum.
	ErrCorrupt = errors.New("the content does not match its size and digest")
	// ErrKey means that a key cannot be used.
	ErrKey = errors.New("the name cannot be a part of the key of an object")
)

// PageMax bounds the number of objects in one List or Delete.
const PageMax = 1000

// Walk passes all objects with a prefix to see, page by page, until see returns an error.
func Walk(ctx context.Context, s Store, prefix string, see func([]Info) error) error {
	for after := ""; ; {
		page, err := s.List(ctx, prefix, after, PageMax)
		if err == nil {
			err = see(page)
		}
		if err != nil || len(page) < PageMax {
			return err
		}
		after = page[len(page)-1].Key
	}
}

// Final reports whether it is useless to repeat a call that failed with this error.
func Final(err error) bool {
	return errors.Is(err, ErrExists) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrKey)
}
