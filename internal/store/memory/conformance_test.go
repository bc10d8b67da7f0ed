package memory_test

import (
	"testing"

	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Engine{Open: func(*testing.T) store.Store { return memory.New(memory.Options{}) }})
}

func TestConformanceSharded(t *testing.T) {
	storetest.Run(t, storetest.Engine{Open: func(*testing.T) store.Store { return memory.New(memory.Options{Shards: 5}) }})
}
