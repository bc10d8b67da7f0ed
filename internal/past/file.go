package past

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"skein.dev/skein/internal/dag"
)

// fileMax bounds the size of the file in bytes. It has room for thousands of shards.
const fileMax = 1 << 20

// Known reads the regresses that a file holds, newest first. there reports whether the file exists.
func Known(file string) (all []Regress, there bool, err error) {
	m, err := read(file)
	return m.Regresses, m.Cluster != "", err
}

// EraKnown returns the latest era that a file holds.
func EraKnown(file string) (dag.Era, error) {
	m, err := read(file)
	return m.Era, err
}

func read(file string) (m knowledge, err error) {
	if file == "" {
		return m, nil
	}
	info, err := os.Stat(file)
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}
	if err == nil && info.Size() > fileMax {
		err = fmt.Errorf("%s has %d bytes; at most %d are read", file, info.Size(), fileMax)
	}
	if err != nil {
		return m, err
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return knowledge{}, err
	}
	return m, nil
}
