package workflow

// triggerShape is one schedule or sensor.
func triggerShape() *shape {
	sh := object(`a mapping such as {cron: "15 2 * * *"}`,
		key{name: "name", doc: "Its identity across edits; default: kind and expression.", shape: keyOrDash("the name of a trigger")},
		key{name: "timezone", doc: "IANA time zone, such as Europe/Berlin.", shape: pattern("a time zone such as Europe/Berlin", `^[A-Za-z0-9_+/-]{1,64}$`)},
		key{name: "max_concurrent_runs", doc: "Most runs of this trigger at one time.", shape: integer(1, 1_000_000)},
		key{name: "overlap", doc: "What a fire does while the last run goes on.", shape: oneOf("skip", "queue", "cancel_running", "allow")},
		key{name: "catchup", doc: "What happens to fires that were missed while nothing ran.", shape: oneOf("none", "latest", "all")},
		key{name: "catchup_limit", doc: "Most fires that catchup: all makes up for.", shape: integer(1, 1_000_000)},
		key{name: "delay_tolerance", doc: "A run that has not started by then is skipped, its fire missed.", shape: duration(false)},
		key{name: "dst", doc: "What clock changes do to fixed hours.", shape: object("a mapping such as {gap: run_after, repeat: once}",
			key{name: "gap", doc: "A fire in an hour that does not exist.", shape: oneOf("run_after", "skip", "run_before")},
			key{name: "repeat", doc: "A fire in an hour that comes twice.", shape: oneOf("once", "second", "both")})},
		key{name: "if_lost", doc: "What happens to a run whose handler is gone.", shape: oneOf("resubmit", "fail")},
		key{name: "calendar", doc: "Days on which it fires or does not.", shape: calendar()},
		key{name: "start", doc: "No fire before this date or instant.", shape: text("a date or an instant")},
		key{name: "end", doc: "No fire after this date or instant.", shape: text("a date or an instant")},
		key{name: "paused", doc: "Whether it begins paused.", shape: boolean()},
		key{name: "params", doc: "Parameters of the runs it starts.", shape: table("a mapping of values", keyName(), &shape{kind: anyShape})},
		key{name: "priority", doc: "Priority of the runs it starts.", shape: priorities()},
		key{name: "queue", doc: "Queue of the runs it starts.", shape: keyOrDash("the name of a queue")},
		key{name: "count", doc: "With every: how many fires; -1 for ever.", shape: integer(-1, 1_000_000_000)},
	)
	kinds := append(schedules(), sensors()...)
	for _, k := range kinds {
		sh.choose = append(sh.choose, k.name)
	}
	sh.keys = append(sh.keys, kinds...)
	return sh
}

func calendar() *shape {
	days := forms("a file or date, or a list of them", text("a file or date"), list("a list of files or dates", text("a file or date")))
	return object("a mapping such as {exclude: holidays.ics}",
		key{name: "exclude", doc: "Dates, weekdays or calendar files without fires.", shape: days},
		key{name: "include", doc: "Only these dates, weekdays or days of calendar files.", shape: days})
}

func schedules() []key {
	clock := pattern(`a time of day such as "06:00"`, `^([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$`)
	at := key{name: "at", must: true, doc: "Time of day, or a list of them.", shape: forms("a time of day or a list of them", clock, list("a list of times", clock))}
	weekday := pattern("a weekday such as mon, or 0 to 7", `^(?i:mon|tue|wed|thu|fri|sat|sun|monday|tuesday|wednesday|thursday|friday|saturday|sunday|[0-7])$`)
	day := forms("a day of the month or a list of them", integer(-31, 31), list("a list of days", integer(-31, 31)))
	month := pattern("a month such as jan, or 1 to 12", `^(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|[1-9]|1[0-2])$`)
	return []key{
		{name: "cron", doc: "Cron expression of 5, 6 or 7 fields, @daily and friends, Quartz ? L W #.", shape: text(`a cron expression such as "15 2 * * *"`)},
		{name: "every", doc: "Interval.", shape: duration(false)},
		{name: "at", doc: "Once, at this instant.", shape: text("an instant such as 2027-01-01T06:00:00Z")},
		{name: "daily", doc: "Each day.", shape: object(`a mapping such as {at: "06:00"}`, at)},
		{name: "weekly", doc: "On days of the week.", shape: object(`a mapping such as {on: mon, at: "06:00"}`, at,
			key{name: "on", doc: "Weekday, or a list of them.", shape: forms("a weekday or a list of them", weekday, list("a list of weekdays", weekday))})},
		{name: "monthly", doc: "On days of the month; -1 is the last.", shape: object(`a mapping such as {day: 1, at: "06:00"}`, at,
			key{name: "day", doc: "Day of the month, or a list of them.", shape: day})},
		{name: "annually", doc: "On a day of the year.", shape: object(`a mapping such as {month: jan, day: 1, at: "06:00"}`, at,
			key{name: "month", doc: "Month.", shape: month}, key{name: "day", doc: "Day of the month, or a list of them.", shape: day})},
	}
}

func sensors() []key {
	runOf := object("a mapping such as {workflow: NAME}",
		key{name: "workflow", must: true, doc: "The other workflow, or a list of them.", shape: forms("a workflow or a list of them", workflowRef(), list("a list of workflows", workflowRef()))},
		key{name: "require", doc: "What its run must have come to.", shape: text("succeeded, ended, all or any")},
		key{name: "within", doc: "The span in which the runs must lie.", shape: within()})
	file := object("a mapping such as {path: /in, pattern: \"*.csv\"}",
		key{name: "path", must: true, doc: "Folder that is watched.", shape: text("a folder")},
		key{name: "pattern", doc: "Names of the files, as a glob.", shape: text("a glob")})
	absent := object("a mapping such as {run_of: {workflow: NAME}, by: \"06:00\"}",
		key{name: "run_of", doc: "A run that is expected.", shape: forms("a workflow or a mapping", workflowRef(), runOf)},
		key{name: "file", doc: "A file that is expected.", shape: forms("a path or a mapping", text("a path"), file)},
		key{name: "by", must: true, doc: "When it must have come.", shape: text("a time of day, an instant or a duration")})
	absent.choose = []string{"run_of", "file"}
	return []key{
		{name: "webhook", doc: "A signed call from outside.", shape: object("a mapping such as {secret: NAME}",
			key{name: "secret", doc: "Name of the secret that signs the calls.", shape: keyOrDash("the name of a secret")},
			key{name: "filter", doc: "Expression over the call that must hold.", shape: text("an expression")})},
		{name: "file", doc: "A file that arrived and no longer grows.", shape: file},
		{name: "run_of", doc: "Another workflow's run that ended.", shape: runOf},
		{name: "again", doc: "When the last run ended.", shape: object("a mapping such as {max_per_hour: 6}",
			key{name: "max_per_hour", doc: "Most starts in an hour.", shape: integer(1, 3600)})},
		{name: "absent", doc: "Something expected that did not come.", shape: absent},
	}
}
