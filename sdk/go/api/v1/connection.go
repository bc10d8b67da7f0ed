package api

import "encoding/json"

// Connection holds the data by which tasks of a namespace reach another system.
type Connection struct {
	Namespace  string          `json:"namespace"`
	Name       string          `json:"name"`
	Type       string          `json:"type" doc:"http, postgres, mysql, sqlite or clickhouse."`
	Config     json.RawMessage `json:"config" doc:"Its configuration, with the names of secrets."`
	Version    int64           `json:"version" doc:"How often it was set, from 1."`
	User       string          `json:"user" doc:"The user who set it last."`
	CreatedAt  Time            `json:"created_at" format:"date-time"`
	ModifiedAt Time            `json:"modified_at" format:"date-time"`
}

// ConnectionRequest sets a connection.
type ConnectionRequest struct {
	Config map[string]any `json:"config" doc:"Exactly one type with its settings, such as {\"http\": {\"url\": \"https://crm.example.com\"}}."`
}

// ConnectionTest is the outcome of a test of a connection.
type ConnectionTest struct {
	OK    bool    `json:"ok"`
	Found *string `json:"found" doc:"The system at the other side."`
	Error *string `json:"error" doc:"Why the connection cannot be used."`
}
