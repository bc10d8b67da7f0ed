package dag

import (
	"reflect"
	"testing"
)

// TestAttemptKeyHasNoPadding checks that the size of a key is the sum of its fields.
func TestAttemptKeyHasNoPadding(t *testing.T) {
	of := reflect.TypeFor[AttemptKey]()
	var fields uintptr
	for i := range of.NumField() {
		fields += of.Field(i).Type.Size()
	}
	if fields != of.Size() {
		t.Errorf("%v has %d bytes, its fields have %d", of, of.Size(), fields)
	}
}
