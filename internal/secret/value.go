package secret

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Bounds of values, in bytes. A shorter value cannot be masked without making every log unreadable.
const (
	ValueMin = 6
	ValueMax = sizeMax
)

// CheckValue refuses a value that cannot be one of a secret of tasks. Its errors never hold the value.
func CheckValue(value []byte) error {
	switch {
	case len(value) < ValueMin:
		return fmt.Errorf("the value is shorter than %d bytes, so logs could not be masked: use a longer one", ValueMin)
	case len(value) > ValueMax:
		return fmt.Errorf("the value is larger than %d bytes: put it into a file, and its key into a secret", ValueMax)
	case !utf8.Valid(value) || bytes.IndexByte(value, 0) >= 0:
		return errors.New("the value is not text (UTF-8 without NUL): encode it, for example in base64")
	}
	return nil
}
