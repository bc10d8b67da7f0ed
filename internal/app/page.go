package app

import (
	"fmt"
	"regexp"

	"skein.dev/skein/internal/server"
	"skein.dev/skein/web/ui"
)

// webPage returns the web page of the server. It returns nil if there is none.
func webPage(cfg *Config) (*server.UI, error) {
	if cfg.NoUI {
		return nil, nil
	}
	text, err := ui.Placeholder()
	if err != nil {
		return nil, err
	}
	return &server.UI{Files: ui.Files(), Placeholder: text, BasePath: cfg.BasePath}, nil
}

// PageState says whether this program has the web page, and whether the page was built from other sources:
// absent, current, stale or unknown. It is unknown if the program was not built by make.
func PageState() (string, error) {
	state, err := ui.Current()
	return string(state), err
}

var basePath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)

func setBasePath(c *Config, v string) error {
	if !basePath.MatchString(v) {
		return fmt.Errorf("%q is not a path such as /skein: it begins with a slash, ends without one, and has letters, digits and . _ ~ -", v)
	}
	c.BasePath = v
	return nil
}
