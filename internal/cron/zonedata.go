package cron

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"io"
	"time"
)

// The zone data of this program, not of the machine: the nodes of a cluster, and a test, must
// agree on when a clock changes. The file is lib/time/zoneinfo.zip of Go 1.26, which is the
// time-zone database of IANA (in the public domain); a newer one comes with a new release.
//
//go:embed zoneinfo.zip
var zoneZip []byte

// zoneFiles maps names to the files in zoneZip. It never changes.
var zoneFiles = zoneIndex(zoneZip)

func zoneIndex(data []byte) map[string]*zip.File {
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		panic("cron: the embedded zone data is damaged: " + err.Error())
	}
	files := make(map[string]*zip.File, len(r.File))
	for _, f := range r.File {
		files[f.Name] = f
	}
	return files
}

// readZone returns a zone by its exact name. ok is false if there is none.
func readZone(name string) (*time.Location, bool) {
	if name == "UTC" {
		return time.UTC, true
	}
	f := zoneFiles[name]
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
