package alert

import (
	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Told is a message that a task sends over channels.
type Told struct {
	ID       uuid.UUID // the id of the incident that records the message
	Of       Subject
	Task     string
	Run      string
	Origin   dag.Origin
	To       []string // channels
	Severity string
	Text     string
}

// Tell makes the incident that records a message, and its notices. The incident has ended at once.
func Tell(m *Told, at dag.Micros) Change {
	h := Happening{Event: KindMessage, Run: m.Run, Origin: m.Origin, At: at}
	n := &Incident{
		Incident: store.Incident{ID: m.ID, Shard: m.Of.Shard, Workflow: m.Of.Workflow, Namespace: m.Of.Namespace, Rule: "task " + m.Task, Created: at},
		Detail:   Detail{Name: m.Of.Name, Severity: m.Severity, To: m.To, Message: m.Text, Count: 1, First: h, Last: h, OpenedAt: at},
	}
	return n.told(KindMessage, store.IncidentResolved, at)
}
