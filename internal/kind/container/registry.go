package container

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"regexp"
	"strings"

	"skein.dev/skein/internal/egress"
)

// localRegistry is the first part of the names of images that no registry has. A person has built or loaded
// such an image on the machine. localhost:5000/a is different: it is in a registry on this machine.
const localRegistry = "localhost"

// isLocal reports whether no registry has an image of this name.
func isLocal(name string) bool { return strings.HasPrefix(name, localRegistry+"/") }

// dockerHub is the registry that Docker asks for names without a registry.
const dockerHub = "docker.io"

// registryOf returns the registry in the name of an image, or "" if the name has none. As for the engines, a
// first part with an upper-case letter is a registry, because it cannot be a part of a repository.
func registryOf(name string) string {
	first, _, more := strings.Cut(name, "/")
	if more && (strings.ContainsAny(first, ".:") || first == localRegistry || first != strings.ToLower(first)) {
		return first
	}
	return ""
}

// addressOf returns the address of a registry.
func addressOf(registry string) string {
	switch registry {
	case dockerHub, "index.docker.io":
		registry = "registry-1.docker.io"
	}
	if _, _, err := net.SplitHostPort(registry); err == nil {
		return registry
	}
	return net.JoinHostPort(registry, "443")
}

// allowed returns an error if the rules of the attempt do not allow one of the registries. The engine pulls
// the image in a process of its own, so only the address of the registry itself can be checked.
func allowed(ctx context.Context, raw json.RawMessage, registries ...string) error {
	var rules egress.Rules
	if len(raw) > 0 && json.Unmarshal(raw, &rules) != nil {
		return errors.New("the rules of egress cannot be read")
	}
	for _, registry := range registries {
		if err := egress.Check(ctx, rules, addressOf(registry)); err != nil {
			return err
		}
	}
	return nil
}

// away matches messages about a registry that cannot be reached, or that wants fewer requests.
var away = regexp.MustCompile(`(?i)connection refused|no such host|i/o timeout|TLS handshake timeout|network is unreachable|no route to host|connection reset|temporary failure in name resolution|server misbehaving|deadline exceeded|unexpected EOF|toomanyrequests|too many requests|status code 5\d\d|\b50[0234] `)
