package packed

import (
	"encoding/json"
	"fmt"

	"skein.dev/skein/internal/store"
)

// PackHears returns the column trigger.hears: the workflows to which a trigger listens, as a JSON list, or ""
// for none. check is the engine's test of a text, because JSON would change an invalid one silently.
func PackHears(names []string, check func(string) error) (string, error) {
	if len(names) == 0 {
		return "", nil
	}
	for _, name := range names {
		if err := check(name); err != nil {
			return "", fmt.Errorf("the workflows to which a trigger listens: %w", err)
		}
	}
	text, err := json.Marshal(names)
	return string(text), err
}

// UnpackHears returns the names in the column trigger.hears. It returns ErrCorrupt for a column that it
// cannot read.
func UnpackHears[T string | []byte](text T) (names []string, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &names); err != nil {
		return nil, fmt.Errorf("the workflows to which a trigger listens: %w: %w", store.ErrCorrupt, err)
	}
	return names, nil
}
