package registry

import (
	"bytes"
	"testing"
)

// FuzzZooKeeper reads arbitrary answers of a server.
func FuzzZooKeeper(f *testing.F) {
	f.Add(zooBytes(nil, zooText([]byte{0, 0, 0, 1}, "a")))
	f.Add([]byte{0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := readFrame(bytes.NewReader(data))
		if err != nil {
			return
		}
		list, err := zooTexts(frame)
		if err != nil {
			return
		}
		again := []byte{byte(len(list) >> 24), byte(len(list) >> 16), byte(len(list) >> 8), byte(len(list))}
		for _, text := range list {
			again = zooText(again, text)
		}
		if !bytes.HasPrefix(frame, again) {
			t.Errorf("%q became %q", frame, list)
		}
	})
}
