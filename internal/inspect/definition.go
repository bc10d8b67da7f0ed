package inspect

import (
	"encoding/json"
	"time"
)

// Definition is the definition of a task with its expressions evaluated. It contains no value of a secret.
type Definition struct {
	// Kind is one of the following words, or notify.
	Kind        string // shell, argv, code, file, builtin, http, sql, foreach, call, made, wait, approval, switch, dependent, kind
	Description string
	Needs       []string
	If          string // "" means success()

	Command     []string // the command of the kinds shell and argv
	Interpreter string   // interpreter of inline code
	Code        string
	File        string
	Args        []string
	Method, URL string // only for http
	Connection  string // the connection that the request uses; "" if there is none
	Headers     []Pair
	Body        string
	Function    string          // the kind that workers register
	Input       json.RawMessage // the input of Function; for sql, the parameters
	Dir         string
	Env         []Pair
	Files       []Pair // the files of other tasks that the task gets: the name of the other task, and the name of the file

	Secrets []string // the names of the secrets that the task reads, sorted

	Timeout    time.Duration
	Retries    int32
	RetryDelay time.Duration
	Queue      string
	Priority   string
	Place      string // the workers on which it may run; "" means all
	CPU        int64  // thousandths of a core
	Memory     int64

	// Fault is the reason why the expressions cannot be evaluated. If it is set, the fields with expressions
	// are empty.
	Fault string
}

// Pair is a name with its value.
type Pair struct{ Name, Value string }
