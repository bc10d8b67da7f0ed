package config

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// sqliteScheme is the prefix of a setting db that names a file. Any other value is an address of PostgreSQL.
const sqliteScheme = "sqlite:"

func setDB(c *Config, v string) error {
	path, isFile := strings.CutPrefix(v, sqliteScheme)
	switch {
	case v == "":
		c.DB, c.Postgres = "", ""
		return nil
	case isFile && path != "":
		var err error
		c.Postgres = ""
		c.DB, err = filepath.Abs(path)
		return err
	case strings.HasPrefix(v, "postgres://") || strings.HasPrefix(v, "postgresql://"):
		if _, err := url.Parse(v); err != nil {
			return errors.New("it is not a URL such as postgres://user@host:5432/database") // the text may contain a password
		}
		c.DB, c.Postgres = "", v
		return nil
	}
	return fmt.Errorf("%q is neither sqlite:PATH nor postgres://user@host:5432/database", shownDB(v))
}

// shownDB returns the setting db without its password.
func shownDB(v string) string {
	switch {
	case strings.HasPrefix(v, "postgres://") || strings.HasPrefix(v, "postgresql://"):
		return withoutPassword(v)
	case strings.HasPrefix(v, sqliteScheme) || !strings.ContainsAny(v, "@="):
		return v
	}
	return "…" // the text may be a mistyped address that contains a password
}

// DBPath returns the path of the SQLite file.
func (c *Config) DBPath() string {
	if c.DB != "" {
		return c.DB
	}
	return filepath.Join(c.Data, "skein.db")
}

// DBName returns the name of the database for people, without a password.
func (c *Config) DBName() string {
	if c.Postgres == "" {
		return c.DBPath()
	}
	return withoutPassword(c.Postgres)
}

func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "postgres://…"
	}
	q := u.Query()
	for _, name := range []string{"password", "sslpassword"} {
		if q.Has(name) {
			q.Set(name, "xxxxx")
			u.RawQuery = q.Encode()
		}
	}
	return u.Redacted()
}

// At returns the settings with another database. db has the form of the setting db.
func (c *Config) At(db string) (*Config, error) {
	own := *c
	if db == "" {
		return nil, &SettingError{Name: "db", Origin: originFlag + "db", Err: errors.New("it is empty")}
	}
	if err := setDB(&own, db); err != nil {
		return nil, &SettingError{Name: "db", Origin: originFlag + "db", Err: err}
	}
	return &own, nil
}

// DBSetting returns the database in the form of the setting db, without a password.
func (c *Config) DBSetting() string {
	if c.Postgres != "" {
		return "'" + c.DBName() + "'"
	}
	return sqliteScheme + c.DBPath()
}
