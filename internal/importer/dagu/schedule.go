package dagu

import (
	"regexp"
	"strconv"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

func rawInt(n int64) importer.Raw { return importer.Raw(strconv.FormatInt(n, 10)) }

var cronZone = regexp.MustCompile(`^(?:CRON_TZ|TZ)=(\S+)\s+`)

// schedules converts the triggers. Dagu starts no run while another one is active, and makes up for missed
// instants only within a catch-up window.
func (d *dag) schedules(f *importer.Fields) {
	v := f.Take("schedule")
	catchup := "none"
	if w := f.Take("catchupWindow"); w != nil {
		catchup = "latest"
		if p := f.Take("overlapPolicy"); p.Str() == "all" {
			catchup = "all"
		}
		d.Approximate(w, "catchupWindow: missed fires of any age are made up (catchup: "+catchup+"); catchup_limit limits their number")
	}
	if v.Null() {
		return
	}
	if v.Kind != workflow.MapValue {
		d.schedule(v, catchup)
		return
	}
	in := importer.NewFields(v)
	if at := in.Take("cron", "at"); at != nil {
		d.schedule(v, catchup)
		return
	}
	d.schedule(in.Take("start"), catchup)
	in.Rest(map[string]string{
		"stop":    "Skein does not stop a run at a given time; write timeout, or call skein run stop in a scheduled workflow",
		"restart": "Skein does not restart a run at a given time; a schedule with overlap: cancel_running does nearly the same",
	}, func(key *workflow.Value, why string) { d.Drop(key, "schedule."+why, "") })
}

// schedule converts one expression, a list of them, or mappings with cron or at.
func (d *dag) schedule(v *workflow.Value, catchup string) {
	switch {
	case v.Null():
	case v.Kind == workflow.ListValue:
		for _, e := range v.Vals {
			d.schedule(e, catchup)
		}
	case v.Kind == workflow.MapValue:
		in := importer.NewFields(v)
		switch expr, at := in.Take("cron"), in.Take("at"); {
		case expr != nil:
			d.schedule(expr, catchup)
		case at != nil:
			d.trigger(at, importer.Map{{Key: "at", Value: at.Str()}, {Key: "overlap", Value: "skip"}})
		}
		in.Rest(nil, func(key *workflow.Value, why string) { d.Drop(key, "schedule."+why, "") })
	default:
		zone, expr := d.conv.Zone, strings.TrimSpace(v.Str())
		if m := cronZone.FindStringSubmatch(expr); m != nil {
			zone, expr = m[1], strings.TrimSpace(expr[len(m[0]):])
		}
		d.trigger(v, importer.Map{{Key: "cron", Value: importer.Raw(importer.DoubleQuoted(expr))}, {Key: "timezone", Value: zone}, {Key: "overlap", Value: "skip"}, {Key: "catchup", Value: catchup}})
	}
}

// trigger adds a trigger if Skein accepts it. It reports a wrong schedule, and the workflow is still
// imported.
func (d *dag) trigger(at *workflow.Value, m importer.Map) {
	if err := importer.CheckTrigger(m); err != nil {
		d.Drop(at, "schedule: "+err.Error(), "write the trigger by hand")
		return
	}
	d.Triggers = append(d.Triggers, m)
}
