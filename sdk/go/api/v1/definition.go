package api

import "encoding/json"

// TaskDefinition is the input of an attempt of a task, with its expressions evaluated. It contains no value
// of a secret.
type TaskDefinition struct {
	Attempt     int64           `json:"attempt" doc:"The token; 0: the task was not started."`
	Kind        string          `json:"kind" enum:"shell,argv,code,file,builtin,http,sql,container,ssh,kind,foreach,call,made,wait,approval,switch,dependent,notify" doc:"kind: a function that workers register, or a kind of an extension."`
	Description *string         `json:"description"`
	Needs       []string        `json:"needs" nullable:"false"`
	If          *string         `json:"if" doc:"The condition; null: all that it needs succeeded."`
	Command     []string        `json:"command" nullable:"false" doc:"The program and its arguments; empty if there is a script, a request or no process."`
	Script      *TaskScript     `json:"script"`
	Request     *TaskCall       `json:"request"`
	Function    *string         `json:"function" doc:"The kind whose function is called."`
	Input       json.RawMessage `json:"input" doc:"Of the function; null: there is none."`
	Dir         *string         `json:"dir" doc:"As written; null: a folder of its own."`
	Env         []NamedValue    `json:"env" nullable:"false"`
	Files       []NamedValue    `json:"files" nullable:"false" doc:"The files that it gets: the task that keeps them, and their name."`
	Secrets     []string        `json:"secrets" nullable:"false" doc:"The names of the secrets that it reads. ••• takes the place of their values."`
	Timeout     *string         `json:"timeout"`
	Retries     int32           `json:"retries" doc:"Most further attempts after a failure."`
	RetryDelay  *string         `json:"retry_delay"`
	Queue       *string         `json:"queue"`
	Priority    string          `json:"priority"`
	Place       *string         `json:"place" doc:"Where it may run; null: anywhere."`
	CPU         float64         `json:"cpu"`
	Memory      int64           `json:"memory"`
	Fault       *string         `json:"fault" doc:"Why the expressions cannot be evaluated. Then the parts with expressions are empty."`
}

// TaskScript is a script of a task.
type TaskScript struct {
	Interpreter *string  `json:"interpreter" doc:"null: by the first line or the name of the file."`
	Code        *string  `json:"code"`
	File        *string  `json:"file"`
	Args        []string `json:"args" nullable:"false"`
}

// TaskCall is a request that a task sends.
type TaskCall struct {
	Connection *string      `json:"connection" doc:"The connection that the request uses; url is then a path. The headers of the connection are not shown."`
	Method     string       `json:"method"`
	URL        string       `json:"url"`
	Headers    []NamedValue `json:"headers" nullable:"false"`
	Body       *string      `json:"body"`
}

// NamedValue is a name with its value.
type NamedValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
