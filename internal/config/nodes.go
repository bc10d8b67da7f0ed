package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ErrNoServer means that a worker has no URL of a node.
var ErrNoServer = errors.New("a worker needs the URL of a node: --server http://node-1:8080[,http://node-2:8080]")

// NodesOfWorker returns the nodes that were given to a worker. It refuses an invalid address, because
// otherwise the worker would try it for ever.
func (c *Config) NodesOfWorker() (all []string, err error) {
	for _, given := range c.Server {
		text := given
		if !strings.Contains(text, "://") {
			text = "http://" + text
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return nil, c.Wrong("server", fmt.Errorf("%q is not a URL such as http://node-1:8080", given))
		}
		all = append(all, strings.TrimSuffix(text, "/"))
	}
	if len(all) == 0 {
		return nil, ErrNoServer
	}
	return all, nil
}
