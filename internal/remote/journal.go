package remote

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"

	workerv1 "skein.dev/skein/api/worker/v1"
)

// journal keeps the results that nobody has acknowledged yet. It survives the end of the process; the end of
// the machine ends the attempts, too, and what they came to is then found out by running them again.
type journal struct {
	mu   sync.Mutex // protects following fields
	file *os.File
	open int // results in it without an acknowledgement
}

// line is one of the journal: who it is, a result, or an attempt whose result has been acknowledged.
type line struct {
	Handler int64           `json:"handler,omitempty"`
	UUID    string          `json:"uuid,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Done    *attemptName    `json:"done,omitempty"`
}

type attemptName struct {
	Run   string `json:"run"`
	Task  int32  `json:"task"`
	Token int32  `json:"token"`
}

func nameOf(a *workerv1.Attempt) attemptName { return attemptName{a.Run, a.Task, a.Token} }

// left is what a process of before did not get rid of.
type left struct {
	handler int64
	uuid    string
	results []*workerv1.Result
}

const journalLineMax = 1 << 20 // bytes; outputs have 64 KiB

// openJournal opens the journal of a data folder and says what is left in it. A line that was cut off is the
// last one, whose result nobody has: its attempt counts as lost.
func openJournal(data string) (*journal, left, error) {
	path := filepath.Join(data, "reports.jsonl")
	l, err := readJournal(path)
	if err != nil {
		return nil, l, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, l, fmt.Errorf("open the journal of results: %w", err)
	}
	return &journal{file: file, open: len(l.results)}, l, nil
}

func readJournal(path string) (left, error) {
	var l left
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, fmt.Errorf("read the journal of results: %w", err)
	}
	defer file.Close()
	open := map[attemptName]*workerv1.Result{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, journalLineMax)
	for lines.Scan() {
		var x line
		if json.Unmarshal(lines.Bytes(), &x) != nil {
			break
		}
		switch {
		case x.Handler != 0: // a life of its own: what was before it is over
			l.handler, l.uuid = x.Handler, x.UUID
			clear(open)
		case x.Done != nil:
			delete(open, *x.Done)
		case x.Result != nil:
			var r workerv1.Result
			if protojson.Unmarshal(x.Result, &r) == nil && r.Attempt != nil {
				open[nameOf(r.Attempt)] = &r
			}
		}
	}
	for _, r := range open {
		l.results = append(l.results, r)
	}
	return l, nil
}

func (j *journal) write(x line) error {
	data, err := json.Marshal(x)
	if err == nil {
		_, err = j.file.Write(append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the journal of results: %w", err)
	}
	return nil
}

// begin notes under which handler the results are, and drops what was before.
func (j *journal) begin(handler int64, uuid string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open = 0
	if err := j.file.Truncate(0); err != nil {
		return fmt.Errorf("empty the journal of results: %w", err)
	}
	return j.write(line{Handler: handler, UUID: uuid})
}

func (j *journal) ended(r *workerv1.Result) error {
	data, err := protojson.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the journal of results: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open++
	return j.write(line{Result: data})
}

// done notes an acknowledgement. When nothing is open any more, the journal is made short.
func (j *journal) done(a *workerv1.Attempt, handler int64, uuid string) error {
	name := nameOf(a)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.open--; j.open > 0 {
		return j.write(line{Done: &name})
	}
	j.open = 0
	if info, err := j.file.Stat(); err == nil && info.Size() < journalLineMax {
		return j.write(line{Done: &name})
	}
	if err := j.file.Truncate(0); err != nil {
		return fmt.Errorf("empty the journal of results: %w", err)
	}
	return j.write(line{Handler: handler, UUID: uuid})
}

func (j *journal) close() error { return j.file.Close() }
