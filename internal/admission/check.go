package admission

import (
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Rows are the stored claims, read while no message between shards is in flight.
type Rows struct {
	Claims map[dag.RunID]*dag.Claim // the claims of the runs that hold locks or queue slots
	Shares map[CrewKey]dag.Share
	Lines  []store.Line
}

// Diff describes how the state differs from rows, or names a run that waits although it could be admitted. It
// returns "" if it finds neither.
func (s *State) Diff(rows *Rows, now dag.Micros) string {
	if diff := s.crewsDiff(rows.Shares); diff != "" {
		return diff
	}
	past, inLine, held := map[*line]int{}, map[stand]int{}, 0
	for id, c := range s.of {
		if c.Claim.InLine() {
			inLine[stand{c.line.name, c.Claim.Level}]++
		}
		if c.slot {
			past[c.line]++
		}
		if !c.Claim.Holds() {
			continue
		}
		if row := rows.Claims[id]; row == nil || string(row.Pack()) != string(c.Claim.Pack()) {
			return fmt.Sprintf("run %s holds %+v in memory, its row says otherwise", id, c.Claim)
		}
		held++
	}
	if held < len(rows.Claims) {
		for id := range rows.Claims {
			if c := s.of[id]; c == nil || !c.Claim.Holds() {
				return fmt.Sprintf("run %s holds something that memory does not know", id)
			}
		}
	}
	for i := range rows.Lines {
		is := &rows.Lines[i]
		at := stand{is.Name, is.Level}
		if l := s.lines[at.line]; l == nil || inLine[at] != int(is.Runs) && !l.levels[at.level].more && !s.unread(at) {
			return fmt.Sprintf("line %s has %d runs at level %d, memory knows others", is.Name, is.Runs, is.Level)
		}
	}
	for name, l := range s.lines {
		if l.past != past[l] {
			return fmt.Sprintf("line %s: %d queue slots are in use, by the runs %d", name, l.past, past[l])
		}
		ok, _ := l.room(now)
		if c := l.head(now, s.Ageing); c != nil && ok && !s.open[name] {
			return fmt.Sprintf("line %s: run %s waits although there is room", name, c.Run)
		}
	}
	return ""
}

// crewsDiff describes how the state differs from the rows in the queue slots of tasks, or returns "".
func (s *State) crewsDiff(stored map[CrewKey]dag.Share) string {
	past := map[*waitList]int64{}
	for k, c := range s.crews {
		if row := stored[k]; row != c.Share {
			return fmt.Sprintf("the tasks of run %s have %+v in memory, by the row %+v", k.Run, c.Share, row)
		}
		past[c.wait] += c.Share.Has()
	}
	for k, row := range stored {
		if s.crews[k] == nil {
			return fmt.Sprintf("the tasks of run %s have %+v, memory knows nothing of that", k.Run, row)
		}
	}
	for name, t := range s.waits {
		if t.past != past[t] {
			return fmt.Sprintf("line %s: %d queue slots of tasks are in use, by the runs %d", name, t.past, past[t])
		}
	}
	return ""
}

// unread reports whether the store has waiting runs of a window that are not in memory, because they want a
// lock for which enough runs wait in memory.
func (s *State) unread(at stand) bool {
	for _, k := range s.locks {
		if _, more := k.more[at]; more {
			return true
		}
	}
	return false
}

// Backlog is the waiting work in queues at one instant.
type Backlog struct {
	Names  []string // names of all queues
	Tasks  map[string]int64
	Oldest map[string]dag.Micros // queue → the time since which its first run or crew waits
}

// Backlog counts the waiting runs and crews. It reads at most `most` lines and wait lists, and only the first
// runs of each.
func (s *State) Backlog(most int) Backlog {
	b := Backlog{Tasks: map[string]int64{}, Oldest: map[string]dag.Micros{}}
	asked := func(queue string, at dag.Micros) {
		if is := b.Oldest[queue]; is == 0 || at < is {
			b.Oldest[queue] = at
		}
	}
	for name := range s.queues {
		b.Names = append(b.Names, name)
	}
	for _, l := range s.lines {
		if most--; most < 0 {
			break
		}
		if l.q == nil {
			continue
		}
		for i := range l.levels {
			if v := &l.levels[i]; len(v.list) > 0 {
				asked(l.q.Name, v.list[0].Claim.Asked)
			} else if v.more && v.from != endOfTime {
				asked(l.q.Name, v.from)
			}
		}
		if len(l.again) > 0 {
			asked(l.q.Name, l.again[0].Claim.Asked)
		}
	}
	for _, t := range s.waits {
		if most--; most < 0 {
			break
		}
		for i := range t.levels {
			if crews := t.levels[i]; len(crews) > 0 {
				b.Tasks[t.queue] += int64(len(crews))
				asked(t.queue, crews[0].Share.Asked)
			}
		}
	}
	return b
}
