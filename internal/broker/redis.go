package broker

import (
	"fmt"
	"strconv"
)

// RedisPort is the default port of Redis.
const RedisPort = 6379

// Redis is a server of Redis, or of one that speaks its protocol.
type Redis struct {
	Server
	Database string `json:"database,omitempty"` // the number of the database; "" means 0
}

// Check returns an error that names a fault of the connection, and the remedy.
func (r *Redis) Check() error {
	if n, err := strconv.Atoi(r.Database); r.Database != "" && (err != nil || n < 0 || n > 1<<20) {
		return fmt.Errorf("database: %.40q is not the number of a database", r.Database)
	}
	return r.Server.check()
}

// RedisInput is the input of the source redis.
type RedisInput struct {
	Stream string `json:"stream"`
	Field  string `json:"field,omitempty"` // the field of an entry that is event.value; "" if there is none
	Value  string `json:"value"`           // json | text | base64: what event.value is
}

// Place returns the word "stream", and the name of the stream that is read.
func (r *RedisInput) Place() (word, name string) { return "stream", r.Stream }

// Read returns the part that determines what the source reads.
func (r *RedisInput) Read() any { return RedisInput{Stream: r.Stream} }
