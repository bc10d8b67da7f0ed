package worker

import (
	"strconv"
	"time"
)

// appendPlain writes an entry as json.Marshal would, if there is nothing in it that needs more than copying, as in nearly all:
// a keeper writes two for every attempt, and that way a tenth of their price. It leaves out what is zero. If it is
// not plain, what was appended is of no use.
func appendPlain(to []byte, e *entry) ([]byte, bool) {
	p := plainText{to: to}
	switch r := e.Result; {
	case e.Tag != nil:
		return to, false
	case r != nil && len(e.Taken) == 0:
		p.begin(`{"result":{"Key":`)
		p.key(&r.Key)
		p.comma = true
		p.text("State", r.State)
		p.text("Cause", r.Cause)
		p.flag("Exited", r.Exited)
		p.number("ExitCode", int64(r.ExitCode))
		p.text("Signal", r.Signal)
		p.text("Message", r.Message)
		p.flag("TimedOut", r.TimedOut)
		p.instant("Started", r.Started)
		p.instant("Finished", r.Finished)
		p.number("LogBytes", r.LogBytes)
		p.number("LogLost", r.LogLost)
		p.to = append(p.to, "}}"...)
		return p.to, !p.odd && r.Outputs == nil
	case r == nil && len(e.Taken) > 0:
		p.begin(`{"taken":[`)
		for i, id := range e.Taken {
			if i > 0 {
				p.to = append(p.to, ',')
			}
			p.begin("{")
			p.text("Run", id.Run)
			p.text("Task", id.Task)
			p.number("Attempt", int64(id.Attempt))
			p.to = append(p.to, '}')
		}
		p.to = append(p.to, "]}"...)
		return p.to, !p.odd
	}
	return to, false
}

// plainText is JSON in the making.
type plainText struct {
	to    []byte
	comma bool // the next field is not the first
	odd   bool // something is not plain
}

func (p *plainText) begin(text string) { p.to, p.comma = append(p.to, text...), false }

func (p *plainText) key(k *Key) {
	p.begin("{")
	p.text("Namespace", k.Namespace)
	p.text("Workflow", k.Workflow)
	p.text("RunID", k.RunID)
	p.text("Task", k.Task)
	p.number("Attempt", int64(k.Attempt))
	p.text("IdempotencyKey", k.IdempotencyKey)
	p.text("Traceparent", k.Traceparent)
	p.number("Ref", k.Ref)
	p.to = append(p.to, '}')
}

func (p *plainText) name(name string) {
	if p.comma {
		p.to = append(p.to, ',')
	}
	p.comma = true
	p.to = append(append(append(p.to, '"'), name...), '"', ':')
}

func (p *plainText) text(name, value string) {
	if value == "" {
		return
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			p.odd = true
			return
		}
	}
	p.name(name)
	p.to = append(append(append(p.to, '"'), value...), '"')
}

func (p *plainText) number(name string, value int64) {
	if value != 0 {
		p.name(name)
		p.to = strconv.AppendInt(p.to, value, 10)
	}
}

func (p *plainText) flag(name string, value bool) {
	if value {
		p.name(name)
		p.to = append(p.to, "true"...)
	}
}

// instant writes as time.Time does; years of more than four digits, which that refuses, are not plain.
func (p *plainText) instant(name string, t time.Time) {
	switch {
	case t.IsZero():
	case t.Year() < 0 || t.Year() > 9999:
		p.odd = true
	default:
		p.name(name)
		p.to = append(t.AppendFormat(append(p.to, '"'), time.RFC3339Nano), '"')
	}
}
