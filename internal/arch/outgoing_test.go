package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// outgoing are the places that may make connections, and whom they call. A package that calls addresses
// which a person chooses takes the transport of package egress.
var outgoing = map[string]string{
	"internal/egress":                   "addresses that people choose, checked",
	"internal/bench":                    "the node that it measures",
	"internal/peer":                     "the nodes of the cluster",
	"internal/remote":                   "the nodes of the cluster",
	"internal/app/tls.go":               "the nodes of the cluster, servers",
	"internal/joining":                  "the nodes of the cluster",
	"internal/store/postgres":           "the database",
	"internal/worker/spawn.go":          "the keeper, by its socket",
	"internal/notify/smtp.go":           "the SMTP server of the settings",
	"internal/notify/webhook.go":        "by the transport of egress",
	"internal/notify/watchdog.go":       "by the transport of egress",
	"internal/worker/http.go":           "by the transport of egress",
	"internal/source/poll.go":           "by the transport of egress",
	"internal/kind/yarn/yarn.go":        "by the transport of egress",
	"internal/kind/spark/master.go":     "by the transport of egress",
	"internal/kind/python/proxy.go":     "by the dialler of egress",
	"internal/connection/use.go":        "by the transport of egress",
	"internal/connection/clickhouse.go": "by the transport of egress",
	"internal/kind/sql/sqltest":         "a database of a test",
	"internal/kind/container":           "the engine of this machine and the attempt of the container, by their sockets",
	"internal/provider/vault.go":        "the servers of Vault of the settings",
	"internal/doctor/peers.go":          "the nodes of the cluster",
	"internal/identity":                 "the identity providers of the settings",
	"internal/identity/ldaptest":        "a directory of a test",
	"internal/registry":                 "the registry of the settings",
	"internal/trace":                    "the collector of the settings",
	"internal/registry/registrytest":    "a registry of a test",
	"sdk/go/client.go":                  "the server",
	"sdk/go/worker.go":                  "the nodes of the cluster",
	"sdk/go/worker_session.go":          "the nodes of the cluster",
	"internal/store/postgres/pgtest":    "a database of a test",
	"internal/cluster/nettest":          "the machines of a test",
	"plus/sqs/client.go":                "the service of a connection, with the transport of internal/egress",
	"internal/blob":                     "the object store of the settings, and the services that give credentials to this machine",
	"internal/blob/blobtest":            "a server of a test",
}

var connects = regexp.MustCompile(`http\.(Client\{|Transport\{|DefaultClient|DefaultTransport|ProxyFromEnvironment|Get\(|Post\(|Head\(|PostForm\()|net\.(Dial\w*\(|Dialer\b)`)

func TestOutgoingCalls(t *testing.T) {
	root := repoRoot(t)
	used := map[string]bool{}
	goFiles(t, func(dir, file string) {
		rel, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(src), "\n") {
			if !connects.MatchString(line) {
				continue
			}
			place := filepath.ToSlash(rel)
			if _, ok := outgoing[place]; !ok {
				place = dir
			}
			if _, ok := outgoing[place]; !ok {
				t.Errorf("%s:%d: %s: take the transport of internal/egress, or say here whom it calls", rel, i+1, strings.TrimSpace(line))
			}
			used[place] = true
		}
	})
	for place := range outgoing {
		if !used[place] {
			t.Errorf("%s makes no connection any more", place)
		}
	}
}
