package workflow

// later lists every feature of the file that is recognised but not supported yet, with the sentence that
// refuses it. To add a feature, delete its line and the marks in the grammar.
var later = map[string]string{
	"alert_filters": "tasks and if of alerts are not supported yet",
	"alert_repeat":  "reminders of alerts are not supported yet",
	"alert_include": "include of alerts is not supported yet",
}
