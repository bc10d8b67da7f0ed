package kafka

import (
	"encoding/json"
	"errors"
)

// cursor is the stored position in a topic.
type cursor struct {
	// ID is the id of the topic. A topic that is deleted and created again has another id.
	ID string `json:"id"`
	// Next holds two numbers for each partition: the offset of the next record, and the epoch of the leader
	// that wrote the last record. The epoch is -1 if no record was read.
	Next [][2]int64 `json:"next"`
}

// partitionsMax bounds the partitions of a topic, so that a cursor is not too large.
const partitionsMax = 600

// cursorAt returns the cursor with the given offset for each partition.
func cursorAt(id string, offsets []int64) cursor {
	c := cursor{ID: id}
	for _, o := range offsets {
		c.Next = append(c.Next, [2]int64{o, -1})
	}
	return c
}

// readCursor decodes a stored cursor.
func readCursor(raw json.RawMessage) (c cursor, err error) {
	if json.Unmarshal(raw, &c) != nil || c.ID == "" || len(c.Next) > partitionsMax {
		return c, errors.New("the stored position is not a position in a topic of Kafka")
	}
	for _, n := range c.Next {
		if n[0] < 0 {
			return c, errors.New("the stored position has an offset below 0")
		}
	}
	return c, nil
}
