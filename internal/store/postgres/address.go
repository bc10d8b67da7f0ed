package postgres

import (
	"fmt"
	"net/url"

	"skein.dev/skein/internal/store"
)

// SchemaDefault is the schema of an address that names none.
const SchemaDefault = schemaDefault

// schemaParam of an address names the schema that holds the tables. It is no parameter of
// PostgreSQL's.
const schemaParam = "schema"

// ParseAddress reads an address such as postgres://user@host:5432/database?schema=skein.
func ParseAddress(address string) (Options, error) {
	u, err := url.Parse(address)
	if err != nil { // whose text may hold a password
		return Options{}, fmt.Errorf("the address of the database is no URL such as postgres://user@host:5432/database: %w", store.ErrUnavailable)
	}
	q := u.Query()
	schema := q.Get(schemaParam)
	q.Del(schemaParam)
	u.RawQuery = q.Encode()
	return Options{URL: u.String(), Schema: schema}, nil
}

// WithSchema gives an address in the form that ParseAddress reads, with another schema.
func WithSchema(address, schema string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		_, err = ParseAddress(address)
		return "", err
	}
	q := u.Query()
	q.Set(schemaParam, schema)
	u.RawQuery = q.Encode()
	return u.String(), nil
}
