package workflow

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
)

// Bounds of triggers.
const (
	triggersMax       = 1000
	calendarBytesMax  = 256 << 10 // bytes of one calendar file
	calendarsBytesMax = 4 << 20   // all calendars of a workflow; a calendar counts once for each trigger that names it
)

// The defaults of a trigger.
const (
	CatchupLimitDefault = 100
	OverlapLimitDefault = 100
	SettleDefault       = Duration(5e9)
	MaxPerHourDefault   = 60
)

// Kinds of triggers. A kind has the name of the key that declares it; start is declared by `at: start`.
const (
	KindCron     = "cron"
	KindEvery    = "every"
	KindAt       = "at"
	KindDaily    = "daily"
	KindWeekly   = "weekly"
	KindMonthly  = "monthly"
	KindAnnually = "annually"
	KindStart    = "start"
	KindWebhook  = "webhook"
	KindFile     = "file"
	KindRunOf    = "run_of"
	KindAgain    = "again"
	KindAbsent   = "absent"
	KindEvent    = "event"
	KindPoll     = "poll"
	KindQuery    = "query"
	KindObject   = "object"
)

// Trigger is one checked entry of triggers, with its defaults filled in. The store keeps its JSON. The JSON
// alone is enough to evaluate the trigger, without the file or the version.
type Trigger struct {
	Name string `json:"name"`
	Kind string `json:"kind"`

	Cron   string   `json:"cron,omitempty"`
	Seed   string   `json:"seed,omitempty"` // cron: the text from which H is computed
	Every  Duration `json:"every,omitempty"`
	Count  int64    `json:"count,omitempty"`  // every: the largest number of fires; 0 means no limit
	At     []string `json:"at,omitempty"`     // kind at: one instant in UTC; for other kinds times of day, such as 06:00
	Days   []int    `json:"days,omitempty"`   // weekly: 0 (Sunday) to 6; for other kinds days of the month, -1 is the last
	Months []int    `json:"months,omitempty"` // annually: 1 to 12

	Timezone string `json:"timezone"`
	Gap      string `json:"gap,omitempty"`    // run_after | skip | run_before; "" if it does not apply
	Repeat   string `json:"repeat,omitempty"` // once | second | both
	// Start and End are dates of Timezone or instants in UTC; see Span. A date includes the whole day. ""
	// means no bound.
	Start string `json:"start,omitempty"`
	End   string `json:"end,omitempty"`
	// Include and Exclude are dates, weekdays and names of calendar files. Calendars has the content of those
	// files.
	Include   []string          `json:"include,omitempty"`
	Exclude   []string          `json:"exclude,omitempty"`
	Calendars map[string]string `json:"calendars,omitempty"`

	Paused         bool     `json:"paused,omitempty"`          // the trigger is paused when it is declared
	Overlap        string   `json:"overlap"`                   // skip | queue | cancel_running | allow | wait
	MaxConcurrent  int32    `json:"max_concurrent,omitempty"`  // 0 means any number
	QueueMax       int32    `json:"queue_max,omitempty"`       // only for overlap: queue
	Catchup        string   `json:"catchup,omitempty"`         // none | latest | all; "" for a trigger without instants
	CatchupLimit   int32    `json:"catchup_limit,omitempty"`   // only for catchup: all
	DelayTolerance Duration `json:"delay_tolerance,omitempty"` // 0 means no limit
	// IfLost is resubmit or fail; "" means the node's default, resubmit.
	IfLost string `json:"if_lost,omitempty"`

	Params   json.RawMessage `json:"params,omitempty"`   // a JSON object by parameter; its texts may contain ${{ }}
	Priority string          `json:"priority,omitempty"` // "" means the workflow's
	Queue    string          `json:"queue,omitempty"`    // "" means the workflow's

	Webhook *Webhook   `json:"webhook,omitempty"`
	File    *FileWatch `json:"file,omitempty"`
	RunOf   *RunOf     `json:"run_of,omitempty"`
	Again   *Again     `json:"again,omitempty"`
	Absent  *Absent    `json:"absent,omitempty"`
	Poll    *Poll      `json:"poll,omitempty"`
	Query   *Query     `json:"query,omitempty"`
	Object  *Objects   `json:"object,omitempty"`
	Outside *Outside   `json:"outside,omitempty"`

	// Intake is set for the kinds that read from a source of events with a cursor.
	Intake *Intake      `json:"intake,omitempty"`
	Event  *EventSource `json:"event,omitempty"`
}

// Webhook is a signed call from outside.
type Webhook struct {
	// Secret is the name of the secret that signs the calls. If it is "", Skein makes a secret for this
	// trigger.
	Secret string `json:"secret"`
	Filter string `json:"filter,omitempty"` // CEL over event, without ${{ }}; "" accepts every call
	// Unsigned are the headers and query parameters that event has although no signature covers them:
	// headers.NAME, query.NAME.
	Unsigned []string `json:"unsigned,omitempty"`
}

// FileWatch describes a file that arrives in a folder and stops growing.
type FileWatch struct {
	Path    string   `json:"path"`    // folder; absolute once SetOrigin has been called
	Pattern string   `json:"pattern"` // glob of a file's name
	Settle  Duration `json:"settle"`  // the time for which the file's size must not change
}

// RunOf describes runs of other workflows that have ended.
type RunOf struct {
	Workflows []string `json:"workflows"` // namespace/name, sorted
	// Require is the state in which a run must have ended: succeeded, failed or ended.
	Require string `json:"require"`
	All     bool   `json:"all,omitempty"` // every one of Workflows must end, and not only one of them
	// Within is hour, day, week or month (of the time zone) or a duration, in which the runs must have ended; ""
	// means any.
	Within string `json:"within,omitempty"`
}

// Again describes the end of the last run of the trigger's own workflow.
type Again struct {
	Workflow   string `json:"workflow"` // namespace/name
	MaxPerHour int32  `json:"max_per_hour"`
}

// Absent names the event that is expected: RunOf or File.
type Absent struct {
	RunOf *RunOf     `json:"run_of,omitempty"`
	File  *FileWatch `json:"file,omitempty"`
	// By has one of three forms. It can be a time of day such as 06:00, in Timezone: the trigger fires on
	// each day if nothing came since that time of the day before. It can be an instant in UTC: the trigger
	// fires if nothing came until then. It can be a duration: the trigger fires if nothing came for that time
	// since the last event or fire.
	By string `json:"by"`
}

// Sensor reports whether the trigger waits for an event. The start of a scheduler is such an event, too. The
// fires of a sensor cannot be computed from the clock alone.
func (t *Trigger) Sensor() bool {
	return slices.Contains([]string{KindStart, KindWebhook, KindFile, KindRunOf, KindAgain, KindAbsent}, t.Kind) || t.Intake != nil
}

// Source reports whether the trigger reads its events from another system, and stores a position there.
func (t *Trigger) Source() bool {
	return t.Poll != nil || t.Query != nil || t.Object != nil || t.Outside != nil
}

// On returns the workflows to whose ended runs the trigger listens, as namespace/name.
func (t *Trigger) On() []string {
	switch {
	case t.RunOf != nil:
		return t.RunOf.Workflows
	case t.Absent != nil && t.Absent.RunOf != nil:
		return t.Absent.RunOf.Workflows
	case t.Again != nil:
		return []string{t.Again.Workflow}
	}
	return nil
}

// Encode returns the canonical JSON. Equal declarations give equal bytes, wherever they are in a file and
// whatever else is in it.
func (t *Trigger) Encode() []byte {
	out, err := marshal(t)
	if err != nil {
		// this cannot happen, because a trigger consists of texts and JSON
		panic(fmt.Sprintf("workflow: a trigger is not JSON: %v", err))
	}
	return out
}

// DecodeTrigger reads the form that Encode writes. It relies on the checks of [Parse], and checks only the
// shape.
func DecodeTrigger(spec []byte) (*Trigger, error) {
	t := &Trigger{}
	if err := json.Unmarshal(spec, t); err != nil {
		return nil, fmt.Errorf("decode trigger: %w", err)
	}
	t.Params = unescaped(t.Params)
	return t, nil
}

// SetOrigin sets the folder from which the workflow was applied; "" for a workflow that came over the API. It
// makes relative folders that the triggers watch absolute.
func (w *Workflow) SetOrigin(dir string) error {
	w.Origin = dir
	for i := range w.Triggers {
		t := &w.Triggers[i]
		f := t.File
		if t.Absent != nil {
			f = t.Absent.File
		}
		if f == nil || filepath.IsAbs(f.Path) {
			continue
		}
		if dir == "" {
			return fmt.Errorf("trigger %s watches the relative folder %s, but the workflow was sent without its folder: give an absolute path", t.Name, quoteShort(f.Path))
		}
		f.Path = filepath.Join(dir, f.Path)
	}
	return nil
}
