package kafka

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// cursor is the stored position in a topic.
type cursor struct {
	ID string `json:"id"` // of the topic; a deleted topic and a later one of the same name have different ones
	// Next has the offset of the next record, and the epoch of the leader that wrote the last one, by partition.
	// The epoch is -1 if no record was read.
	Next [][2]int64 `json:"next"`
}

// cursorMax bounds a cursor in bytes, as the engine does.
const cursorMax = 16 << 10

// partitionsMax bounds the partitions of a topic, so that a cursor keeps its bound.
const partitionsMax = 600

// errCursor says that the stored cursor is not one of this source.
var errCursor = errors.New("the stored cursor was not written by this source; move it with: skein schedule seek WORKFLOW/TRIGGER --to now")

// readCursor reads a stored cursor: nil if there is none, or the instant to which a person has moved it.
func readCursor(raw json.RawMessage) (c *cursor, at time.Time, err error) {
	if len(raw) == 0 {
		return nil, at, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if at, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, at, errCursor
		}
		return nil, at, nil
	}
	c = &cursor{}
	if json.Unmarshal(raw, c) != nil || c.ID == "" || len(c.Next) > partitionsMax {
		return nil, at, errCursor
	}
	for _, n := range c.Next {
		if n[0] < 0 {
			return nil, at, errCursor
		}
	}
	return c, at, nil
}

// write returns the stored form.
func (c *cursor) write() (json.RawMessage, error) {
	raw, err := json.Marshal(c)
	if err == nil && len(raw) > cursorMax {
		err = fmt.Errorf("the topic has %d partitions, and their offsets need %d bytes; the limit is %d", len(c.Next), len(raw), cursorMax)
	}
	return raw, err
}
