package app

import (
	"strings"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/web/ui"
)

// webPage returns the web page of the server. It returns nil if there is none.
func webPage(cfg *config.Config) (*server.UI, error) {
	if cfg.NoUI {
		return nil, nil
	}
	text, err := ui.Placeholder()
	if err != nil {
		return nil, err
	}
	return &server.UI{Files: ui.Files(), Placeholder: text, BasePath: cfg.BasePath}, nil
}

// PageState says whether this program contains the web page, and whether the page was built from the present
// sources: absent, current, stale or unknown. It is unknown if the program was not built by make.
func PageState() (string, error) {
	state, err := ui.Current()
	return string(state), err
}

// SignInAddress returns the address at which the page of a server takes a code and signs in. The code is in
// the part after the #, which a browser sends to no server.
func SignInAddress(server, code string) string {
	return strings.TrimRight(server, "/") + "/#code=" + code
}

// FirstAddress returns an address that signs in at the page of a node once. It returns "" if the node has no
// page, or if its callers use tokens of the database.
func FirstAddress(n *Node) string {
	if n.cfg.NoUI || n.own.Secret() == "" {
		return ""
	}
	return SignInAddress(n.URL(), n.sessions.FirstCode())
}
