package config

import (
	"errors"
	"net/url"
	"strings"

	"skein.dev/skein/internal/blob"
)

// storeSettings returns the settings of the stores that the nodes share.
func storeSettings() []setting {
	return []setting{
		{name: "logs", def: text(""), set: func(c *Config, v string) error { return setStore(&c.Logs, &c.LogObjects, v) }},
		{name: "artifacts", def: text(""), set: func(c *Config, v string) error { return setStore(&c.Artifacts, &c.ArtifactObjects, v) }},
	}
}

// setStore parses the path of a folder (also as file:///PATH) or the location of objects.
func setStore(folder *string, objects **blob.Location, v string) error {
	*folder, *objects = "", nil
	switch {
	case strings.HasPrefix(v, blob.Scheme):
		at, err := blob.ParseLocation(v)
		if err == nil {
			*objects = &at
		}
		return err
	case strings.HasPrefix(v, "file:"):
		u, err := url.Parse(v)
		if err != nil || u.Host != "" || !strings.HasPrefix(u.Path, "/") {
			return errors.New("the value is not a URL such as file:///shared/skein")
		}
		v = u.Path
	case strings.Contains(v, "://"):
		return errors.New("the value is neither a folder nor s3://BUCKET/PREFIX")
	}
	return setPath(folder, v)
}
