// Package blob keeps objects in a store that speaks the S3 protocol.
//
// [Open] opens the store that a setting names. An object is written as a whole or not at all, and a reader
// sees an object as soon as its Put has returned. Nothing is known of what the objects mean: package
// artifact/objects and package logs decide that.
//
// Reading order: blob.go (the contract), location.go (the setting), s3.go, call.go, sign.go, retry.go,
// credentials.go, cloud.go.
// Package blobtest holds every implementation to the contract.
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
	ETag     string // of the version of the object, without quotation marks; "": the store has none
}

// PutOptions belong to one Put.
type PutOptions struct {
	// IfAbsent writes the object only if there is none of its key. The content has at most PartSize bytes.
	IfAbsent bool
	// SHA256 is the digest of the content in hexadecimal; "": it is not known. If the content has another one,
	// nothing is written.
	SHA256 string
}

// PartSize is the size up to which an object is written in one request. Larger ones are written in parts of
// this size.
const PartSize = 16 << 20

// KeyMax bounds a key with the prefix of its store, in bytes.
const KeyMax = 1024

// Store keeps objects. Its methods may be called from any goroutine.
type Store interface {
	// Put writes an object of size bytes. It returns ErrExists if options ask for a new object and there is
	// one of this key. If an answer was lost, that object may be the one of this very call. After another
	// error the object may be there or not, but never a part of it.
	Put(ctx context.Context, key string, content io.ReaderAt, size int64, options PutOptions) error
	// Open reads n bytes of an object from an offset; n < 0: all that follow. It returns fs.ErrNotExist if
	// there is no such object. An object that is shorter ends the reading early.
	Open(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error)
	// List returns the objects whose keys begin with prefix and are greater than after, at most limit of them,
	// in the order of their keys.
	List(ctx context.Context, prefix, after string, limit int) ([]Info, error)
	// Delete deletes objects. It is no error if they are gone already.
	Delete(ctx context.Context, keys ...string) error
	// Abort ends the unfinished Puts of keys with this prefix that began before an instant. A process that
	// died has left them.
	Abort(ctx context.Context, prefix string, before time.Time) error
	// Name names the store for people.
	Name() string
}

// Errors of a Store. Other errors than these and fs.ErrNotExist may pass by themselves.
var (
	// ErrExists says that an object of this key exists.
	ErrExists = errors.New("there is an object of this key already")
	// ErrRefused says that the store refuses the call: the credentials, their rights, the bucket or the region
	// are wrong. It does not pass without a change of the settings.
	ErrRefused = errors.New("the object store refuses the call")
	// ErrCorrupt says that the content does not have the announced size or checksum.
	ErrCorrupt = errors.New("the content does not match its size and digest")
	// ErrKey says that a key cannot be used.
	ErrKey = errors.New("the name cannot be a part of the key of an object")
)

// PageMax bounds the objects of one List or Delete.
const PageMax = 1000

// Walk lists all objects with a prefix, page by page, until see returns an error.
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
