package workflow

// later lists every feature of workflow files that is recognised but not supported yet, with the sentence
// that refuses it. When a feature is added, its line here and its marks in the grammar are deleted.
var later = map[string]string{
	"alert_filters": "if of alerts is not supported yet",
	"alert_repeat":  "reminders of alerts are not supported yet",
	"alert_include": "include of alerts is not supported yet",
}
