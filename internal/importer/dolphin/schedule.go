package dolphin

import (
	"regexp"
	"strconv"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// triggers converts the schedule of a workflow.
func (f *flow) triggers() {
	in, key := f.schedule, "crontab"
	if in == nil {
		in, key = f.def, "schedule"
	}
	at := in.Take(key)
	text := strings.TrimSpace(at.Str())
	if text == "" {
		return
	}
	expr, why := quartz(text)
	if why != "" {
		f.Drop(at, "crontab: "+why, "write the trigger by hand")
		return
	}
	m := importer.Map{{Key: "cron", Value: importer.Raw(importer.DoubleQuoted(expr))}, {Key: "timezone", Value: f.zone}}
	f.span(&m, in, at)
	if strings.HasPrefix(strings.ToUpper(f.def.Peek("executionType").Str()), "SERIAL_DISCARD") {
		m.Add("overlap", "skip")
	} else {
		m.Add("overlap", "allow")
	}
	m.Add("catchup", "all")
	state := in.Take("releaseState", "release_state")
	if state != nil && !online(state) || state == nil && f.schedule != nil {
		m.Add("paused", importer.Raw("true"))
		f.Approximate(at, "the schedule was offline, so it begins paused; skein schedule resume starts it")
	}
	if p := strings.ToLower(in.Take("processInstancePriority", "workflowInstancePriority").Str()); p != "" && p != "medium" {
		m.Add("priority", p)
	}
	if f.schedule != nil {
		f.scheduled()
	}
	if err := importer.CheckTrigger(m); err != nil {
		f.Drop(at, "schedule: "+err.Error(), "write the trigger by hand")
		return
	}
	f.Triggers = append(f.Triggers, m)
}

// scheduled converts those fields of an exported schedule that concern its runs.
func (f *flow) scheduled() {
	in := f.schedule
	if strings.EqualFold(in.Take("failureStrategy").Str(), "END") {
		f.Settings.Add("on_failure", "end")
	}
	if v := in.Take("warningType"); v != nil && !strings.EqualFold(v.Str(), "NONE") {
		f.warning(v)
	}
	if g := in.Take("workerGroup"); g.Str() != "" && g.Str() != "default" {
		f.Approximate(g, "workerGroup of the schedule: write defaults: {group: "+importer.Clip(g.Str(), 40)+"}, which applies to all runs")
	}
	in.Rest(foldedSet(`id processDefinitionCode workflowDefinitionCode processDefinitionName workflowDefinitionName projectName definitionDescription
		timezoneId createTime updateTime userId userName warningGroupId environmentCode tenantCode environmentName`), func(key *workflow.Value, why string) {
		if !strings.HasSuffix(why, ": ") {
			f.Drop(key, "schedule."+why, "")
		}
	})
}

var instant = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2}))?(?:\.\d+)?(?:[+-]\d{2}:?\d{2}|Z)?$`)

// span converts the first and the last day of a schedule. Exports write a day in the far future if there is
// no last day.
func (f *flow) span(m *importer.Map, in *importer.Fields, at *workflow.Value) {
	for _, key := range [...][2]string{{"startTime", "start"}, {"endTime", "end"}} {
		text := in.Take(key[0]).Str()
		if text == "" {
			continue
		}
		is := instant.FindStringSubmatch(text)
		if is == nil {
			f.Drop(at, key[0]+": "+importer.Clip(text, 40)+" is not a time", "write "+key[1]+": DATE")
			continue
		}
		if key[1] == "end" && is[1] >= "2090" {
			continue
		}
		m.Add(key[1], importer.Raw(importer.DoubleQuoted(is[1])))
		if is[2] != "" && is[2] != "00:00:00" {
			f.Approximate(at, key[0]+": the time of day "+is[2]+" is not kept: the schedule applies to the whole day "+is[1])
		}
	}
}

var dayNumber = regexp.MustCompile(`^([1-7])(L|#[1-5]|-[1-7](?:/[0-9]+)?|/[0-9]+)?$`)

// quartz converts an expression of Quartz. In Quartz, Sunday is day 1 of the week, in Skein day 0.
func quartz(text string) (expr, why string) {
	fields := strings.Fields(text)
	if len(fields) != 6 && len(fields) != 7 {
		return "", "an expression of Quartz has 6 or 7 fields, and " + importer.Clip(text, 60) + " has " + strconv.Itoa(len(fields))
	}
	for i := range fields {
		if fields[i] == "?" {
			fields[i] = "*"
		}
	}
	days := strings.Split(fields[5], ",")
	for i, d := range days {
		switch m := dayNumber.FindStringSubmatch(d); {
		case d == "L":
			days[i] = "6"
		case m == nil: // names, * and */2 mean the same in both
		case strings.HasPrefix(m[2], "-"):
			days[i] = lower(m[1]) + "-" + lower(m[2][1:2]) + m[2][2:]
		case strings.HasPrefix(m[2], "/"):
			days[i] = lower(m[1]) + "-6" + m[2]
		default:
			days[i] = lower(m[1]) + m[2]
		}
	}
	fields[5] = strings.Join(days, ",")
	if len(fields) == 7 && fields[6] == "*" {
		fields = fields[:6]
	}
	if len(fields) == 6 && fields[0] == "0" {
		fields = fields[1:]
	}
	return strings.Join(fields, " "), ""
}

// lower converts a day of the week from Quartz's numbers to Skein's.
func lower(day string) string { return strconv.Itoa(int(day[0]-'0') - 1) }
