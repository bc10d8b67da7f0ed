package doctor

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/store"
)

// listed is a cluster that implements only the list of members.
type listed struct {
	store.Cluster
	members []store.Member
}

func (l listed) Members(context.Context) ([]store.Member, []store.ShardRow, error) {
	return l.members, nil, nil
}

// TestDoctorCallsPeers checks that doctor names the nodes that do not answer at the addresses by which nodes
// reach each other.
func TestDoctorCallsPeers(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer node.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	all := []store.Member{{Name: "n1", Address: gone.URL}, {Name: "n2", Address: node.URL}, {Name: "w", Worker: true}}
	cfg := &config.Config{Name: "n1"}
	if c := checkPeers(t.Context(), cfg, listed{members: all}); c.State != Good || c.Remedy != "" {
		t.Errorf("one that answers: %+v", c)
	}
	all = append(all, store.Member{Name: "n3", Address: gone.URL})
	if c := checkPeers(t.Context(), cfg, listed{members: all}); c.State != Warning || c.Remedy == "" || !strings.Contains(c.Found, "n3") || strings.Contains(c.Found, "n2:") {
		t.Errorf("one that does not answer: %+v", c)
	}
}
