package worker

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"sort"
)

// The journal keeps the ends of attempts until the worker has acknowledged them, and the worker's tag. The
// journal protects against deaths of processes: a record survives both keeper and worker once its write has
// returned. It does not protect against the death of the machine, because it is not synced to the disk. All
// attempts die with the machine anyway. An attempt whose end is unknown afterwards is lost and runs again, as
// if the machine had died a moment earlier.
//
// A record is four bytes of length, four bytes of CRC-32C and one JSON object. Reading stops at the first
// incomplete record. The ends after that record are lost, as if they had never been written.
type journal struct {
	path    string
	file    *os.File
	size    int64
	tag     string
	untaken map[ID]untaken // Invariant: an end stays until the worker has acknowledged it, or until release drops all ends
	bytes   int            // the size of the written records of unacknowledged ends
}

// untaken is an end that the worker has not acknowledged, and the size of its record.
type untaken struct {
	*Result
	size int
}

// entry is one record. Exactly one field is set.
type entry struct {
	Tag    *string `json:"tag,omitempty"`
	Result *Result `json:"result,omitempty"`
	Taken  []ID    `json:"taken,omitempty"`
}

const (
	// journalSlack is the number of bytes of acknowledged ends above which the file is rewritten.
	journalSlack = 4 << 20
	// journalMax bounds the bytes of a journal that are read. It is twice the size of the largest valid
	// content.
	journalMax = 2 * untakenMax
	// untakenMax bounds the bytes of ends that the worker has not acknowledged. Above it no attempt starts.
	untakenMax = 256 << 20
	// recordMax bounds the bytes of a record. The outputs of a task are its largest part.
	recordMax  = 32 << 20
	recordHead = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openJournal reads the journal of an earlier keeper. damage describes the part that could not be read. The
// keeper continues without that part.
func openJournal(path string) (j *journal, damage, err error) {
	j = &journal{path: path, untaken: map[ID]untaken{}}
	data, damage := readJournal(path)
	for len(data) > 0 && damage == nil {
		var e entry
		n, bad := decodeEntry(data, &e)
		if bad != nil {
			damage = bad
			break
		}
		j.learn(&e, n)
		data = data[n:]
	}
	return j, damage, j.compact()
}

func readJournal(path string) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, journalMax+1))
	if err == nil && len(data) > journalMax {
		err = fmt.Errorf("it is larger than %d bytes", journalMax)
	}
	return data, err
}

func decodeEntry(data []byte, e *entry) (int, error) {
	if len(data) < recordHead {
		return 0, errors.New("its last record is cut off")
	}
	size, sum := int(binary.LittleEndian.Uint32(data)), binary.LittleEndian.Uint32(data[4:])
	if size > recordMax || size > len(data)-recordHead {
		return 0, errors.New("a record is cut off, or its length is damaged")
	}
	text := data[recordHead : recordHead+size]
	if crc32.Checksum(text, castagnoli) != sum {
		return 0, errors.New("a record does not match its checksum")
	}
	if err := json.Unmarshal(text, e); err != nil {
		return 0, fmt.Errorf("a record is not understood: %w", err)
	}
	return recordHead + size, nil
}

func encodeEntry(to []byte, e *entry) ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return to, err
	}
	to = binary.LittleEndian.AppendUint32(to, uint32(len(text)))
	to = binary.LittleEndian.AppendUint32(to, crc32.Checksum(text, castagnoli))
	return append(to, text...), nil
}

// learn applies a record of n bytes to the state in memory.
func (j *journal) learn(e *entry, n int) {
	switch {
	case e.Tag != nil:
		j.tag = *e.Tag
	case e.Result != nil:
		id := e.Result.Key.ID()
		j.bytes += n - j.untaken[id].size
		j.untaken[id] = untaken{e.Result, n}
	}
	for _, id := range e.Taken {
		j.bytes -= j.untaken[id].size
		delete(j.untaken, id)
	}
}

// add applies a record to the state in memory and writes it. If it returns an error, the record is in memory
// only.
func (j *journal) add(e *entry) error {
	record, err := encodeEntry(nil, e)
	if err != nil {
		return err
	}
	j.learn(e, len(record))
	if j.size+int64(len(record)) > journalSlack+int64(2*j.bytes) {
		return j.compact()
	}
	if _, err := j.file.WriteAt(record, j.size); err != nil {
		return fmt.Errorf("write the keeper's journal: %w", err)
	}
	j.size += int64(len(record))
	return nil
}

// compact replaces the file by one without the acknowledged ends. It does not use package atomicfile, because
// that syncs a file before its rename and closes it afterwards. The journal is not synced, and later records
// are appended to the renamed file.
func (j *journal) compact() error {
	data, err := encodeEntry(nil, &entry{Tag: &j.tag})
	if err != nil {
		return err
	}
	for _, r := range j.untaken {
		if data, err = encodeEntry(data, &entry{Result: r.Result}); err != nil {
			return err
		}
	}
	if len(j.untaken) == 0 && j.file != nil { // the same file, truncated
		if err = j.file.Truncate(0); err == nil {
			_, err = j.file.WriteAt(data, 0)
		}
		if err != nil {
			return fmt.Errorf("write the keeper's journal: %w", err)
		}
		j.size = int64(len(data))
		return nil
	}
	next := j.path + ".new"
	file, err := os.OpenFile(next, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		if _, err = file.WriteAt(data, 0); err == nil {
			err = os.Rename(next, j.path)
		}
		if err != nil {
			_ = file.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("write the keeper's journal: %w", err)
	}
	if j.file != nil {
		_ = j.file.Close()
	}
	j.file, j.size = file, int64(len(data))
	return nil
}

// full reports whether the ends that the worker has not acknowledged exceed their bound. Then no attempt may
// start.
func (j *journal) full() bool { return j.bytes > untakenMax }

// ended returns the ends that the worker has not acknowledged, oldest first.
func (j *journal) ended() []Result {
	all := make([]Result, 0, len(j.untaken))
	for _, r := range j.untaken {
		all = append(all, *r.Result)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Finished.Compare(all[j].Finished) < 0 })
	return all
}

// close closes the file. It removes the file if no end in it is still needed.
func (j *journal) close() {
	_ = j.file.Close()
	if len(j.untaken) == 0 {
		_ = os.Remove(j.path)
	}
}
