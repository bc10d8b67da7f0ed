package cron

import (
	"archive/zip"
	_ "embed"
	"io"
	"sync"
	"time"

	"skein.dev/skein/internal/zipped"
)

// The zone data of this program, not of the machine: the nodes of a cluster, and a test, must
// agree on when a clock changes. The file is lib/time/zoneinfo.zip of Go 1.26, packed by gzip -9n. It is
// the time-zone database of IANA (in the public domain); a newer one comes with a new release.
//
//go:embed zoneinfo.zip.gz
var zoneZip []byte

// zoneFiles maps names to the files of zoneZip. The map is made when a zone other than UTC is first needed.
var zoneFiles = sync.OnceValue(func() map[string]*zip.File {
	files, err := zoneIndex(zoneZip)
	if err != nil {
		panic("cron: the embedded zone data is damaged: " + err.Error())
	}
	return files
})

func zoneIndex(packed []byte) (map[string]*zip.File, error) {
	r, err := zipped.Open(packed)
	if err != nil {
		return nil, err
	}
	files := make(map[string]*zip.File, len(r.File))
	for _, f := range r.File {
		files[f.Name] = f
	}
	return files, nil
}

// readZone returns a zone by its exact name. ok is false if there is none.
func readZone(name string) (*time.Location, bool) {
	if name == "UTC" {
		return time.UTC, true
	}
	f := zoneFiles()[name]
	if f == nil {
		return nil, false
	}
	in, err := f.Open()
	if err != nil {
		return nil, false
	}
	defer in.Close()
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, false
	}
	loc, err := time.LoadLocationFromTZData(name, data)
	return loc, err == nil
}
