package dag

// NoteKind says what a Note is about.
type NoteKind uint8

// The kinds of notes.
const (
	NoteFailed   NoteKind = iota + 1 // the task failed finally
	NotePoison                       // the task failed because it lost its handler too often
	NoteRetrying                     // an attempt failed, and the task is tried again
	NoteLost                         // the handler of the attempt is gone
	NoteApproval                     // the task waits for a person
	NoteDecided                      // the task no longer waits for a person
)

// Note tells the owner of a run that something happened to a task, so that it can apply alert rules. Unlike
// timers, notes are needed only in the transaction of their step.
type Note struct {
	Run     RunID
	Task    TaskID // LeaderTask means the split of the run
	Kind    NoteKind
	Message string
}

// note adds a note to the effects of the step. Outside of a step, nothing happens to a task.
func note(r *Run, t TaskID, kind NoteKind, message string) {
	if r.fx != nil {
		r.fx.Notes = append(r.fx.Notes, Note{r.ID, t, kind, message})
	}
}

// SomeFailed reports whether a task of a run with a name that matches has failed.
func SomeFailed(r *Run, match func(name string) bool) bool {
	for t := range r.tasks {
		if r.tasks[t].state == Failed && match(r.Graph.Name(TaskID(t))) {
			return true
		}
	}
	return false
}
