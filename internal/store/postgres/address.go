package postgres

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"skein.dev/skein/internal/store"
)

// SchemaDefault is the schema of an address that does not name one.
const SchemaDefault = schemaDefault

// schemaParam is the parameter of an address that names the schema of the tables. PostgreSQL does not know
// it.
const schemaParam = "schema"

// ParseAddress reads an address such as postgres://user@host:5432/database?schema=skein.
func ParseAddress(address string) (Options, error) {
	u, err := url.Parse(address)
	if err != nil { // the error's text may contain a password
		return Options{}, fmt.Errorf("the address of the database is not a URL such as postgres://user@host:5432/database: %w", store.ErrUnavailable)
	}
	q := u.Query()
	schema := q.Get(schemaParam)
	q.Del(schemaParam)
	u.RawQuery = q.Encode()
	return Options{URL: u.String(), Schema: schema}, nil
}

// Addresses returns HOST:PORT of each server in an address of a database. Servers behind a Unix socket are
// left out.
func (o *Options) Addresses() ([]string, error) {
	config, err := pgconn.ParseConfig(o.URL)
	if err != nil { // the error's text may contain a password
		return nil, fmt.Errorf("the address of the database cannot be read: %w", store.ErrUnavailable)
	}
	var all []string
	add := func(host string, port uint16) {
		address := net.JoinHostPort(host, strconv.Itoa(int(port)))
		if !strings.HasPrefix(host, "/") && !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	add(config.Host, config.Port)
	for _, f := range config.Fallbacks {
		add(f.Host, f.Port)
	}
	return all, nil
}

// WithSchema returns an address with another schema, in the form that ParseAddress reads.
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
