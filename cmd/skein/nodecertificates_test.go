//go:build linux

package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNodesByCertificates: nodes that accept each other only by certificates forward calls and are notified
// of ends. This also works after the root was ended at once, and after the certificate of a node was revoked.
func TestNodesByCertificates(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "secret.key")
	if err := os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFlight(t, 2, "SKEIN_NODE_CERTIFICATES_ONLY=true", "SKEIN_SECRET_KEY_FILE="+key)
	f.own(map[string]int{"n1": 16, "n2": 16})
	one := f.members[0]
	rows := func(want string) {
		t.Helper()
		one.home.until("the rows of the nodes' certificates: "+want, func() bool {
			out, err := f.query("select coalesce(string_agg(name, ',' order by name), '') from skein.token where kind = 'certificate' and revoked = 0")
			return err == nil && out == want
		})
	}
	rows("node n1,node n2")
	f.chain(4, "true")
	where := map[string]string{}
	for i, name := range []string{"link0", "link1", "link2", "link3"} {
		where[name] = []string{"n1", "n2"}[i%2]
	}
	f.at(where)
	runs := 0
	passes := func() {
		t.Helper()
		runs += 4
		one.home.run("run", "--", "link0")
		one.home.until("every link has run", func() bool { return f.members[1].succeeded() == runs })
	}
	passes()
	one.home.run("ca", "rotate", "--now")
	passes()
	hash, err := f.query("select encode(hash, 'hex') from skein.token where name = 'node n2' and revoked = 0")
	if err != nil {
		t.Fatal(err)
	}
	one.home.run("node", "revoke", "n2")
	one.home.until("the node has another key", func() bool {
		out, err := f.query("select encode(hash, 'hex') from skein.token where name = 'node n2' and revoked = 0")
		return err == nil && out != "" && out != hash
	})
	passes()
	f.verified()
	for _, m := range f.members {
		m.stop()
	}
}
