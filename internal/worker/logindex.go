//go:build linux

package worker

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/logindex"
)

// recordsMax bounds the blocks whose description is only in memory. If the keeper dies, readers describe
// these blocks again.
const recordsMax = 16

// logIndex writes the index of a log next to it. A log below logindex.From has none. The index may end
// anywhere before the end of the log, because a reader continues it. So after an error the index just ends.
type logIndex struct {
	// times holds the start of each of the first blocks in µs. It is used while there is no index.
	times [logindex.From / logindex.Block]int64
	x     *logindex.Index
	file  *os.File
	over  bool // the index has ended early, and nothing more is added to it
}

// wrote describes bytes that were just written to a log. They are not part of l.size yet.
func (i *logIndex) wrote(l *logFile, p []byte) {
	if i.over || len(p) == 0 {
		return
	}
	size := l.size + int64(len(p))
	now := int64(0)
	if l.size == 0 || (l.size-1)/logindex.Block != (size-1)/logindex.Block { // a block begins
		now = time.Now().UnixMicro()
	}
	if i.x == nil {
		for b := (l.size + logindex.Block - 1) / logindex.Block; b*logindex.Block < min(size, logindex.From); b++ {
			i.times[b] = now
		}
		if size < logindex.From {
			return
		}
		i.over = !i.begin(l, size)
	}
	if i.over {
		return
	}
	i.x.Add(p, now)
	if i.x.Done() >= recordsMax {
		i.put()
	}
}

// begin makes the index and describes what was written before. It returns false if the index cannot be made.
func (i *logIndex) begin(l *logFile, size int64) bool {
	log, err := os.OpenFile(l.path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer log.Close()
	before := make([]byte, l.size)
	if info, err := log.Stat(); err != nil || info.Size() != size {
		return false
	}
	if _, err := log.ReadAt(before, 0); err != nil {
		return false
	}
	i.file, err = os.OpenFile(l.path+logindex.Suffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return false
	}
	i.x = &logindex.Index{}
	for b := 0; len(before) > 0; b++ {
		n := min(len(before), logindex.Block)
		i.x.Add(before[:n], i.times[b])
		before = before[n:]
	}
	return true
}

// put appends the records of the completed blocks.
func (i *logIndex) put() {
	_, records := i.x.Take()
	if len(records) == 0 {
		return
	}
	if _, err := i.file.Write(records); err != nil {
		i.end()
	}
}

// close appends the last records.
func (i *logIndex) close() {
	if i.x != nil && !i.over {
		i.put()
		i.end()
	}
}

func (i *logIndex) end() {
	i.over = true
	_ = i.file.Close() // an error does no harm, because readers check each record
}
