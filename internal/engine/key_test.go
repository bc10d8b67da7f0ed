package engine

import (
	"reflect"
	"testing"
)

// TestKeysHaveNoRoom: a key of a map with room between its fields is hashed and compared field by field, on the hot path.
func TestKeysHaveNoRoom(t *testing.T) {
	of := reflect.TypeFor[attemptKey]()
	var fields uintptr
	for i := range of.NumField() {
		fields += of.Field(i).Type.Size()
	}
	if fields != of.Size() {
		t.Errorf("%v has %d bytes, its fields have %d", of, of.Size(), fields)
	}
}
