package doctor

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/store"
)

const (
	// peerCheckMax bounds the call to one node.
	peerCheckMax = 3 * time.Second
	// peersChecked bounds the nodes that doctor calls.
	peersChecked = 64
)

// checkPeers calls the other nodes of the cluster at the addresses by which nodes reach each other.
func checkPeers(ctx context.Context, cfg *config.Config, shared store.Cluster) Check {
	c := Check{Name: "other nodes", State: Good}
	members, _, err := shared.Members(ctx)
	if err != nil {
		return Check{Name: c.Name, State: Warning, Found: err.Error()}
	}
	pool, err := cfg.Roots()
	if err != nil {
		return Check{Name: c.Name, State: Bad, Found: err.Error(), Remedy: "correct ca_cert"}
	}
	client := http.Client{Timeout: peerCheckMax, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	var nodes []store.Member
	for i := range members {
		if m := &members[i]; !m.Worker && m.Name != cfg.Name && len(nodes) < peersChecked {
			nodes = append(nodes, *m)
		}
	}
	failed := make([]string, len(nodes))
	var wg sync.WaitGroup
	for i := range nodes {
		wg.Go(func() {
			if err := lives(ctx, &client, nodes[i].Address); err != nil {
				failed[i] = fmt.Sprintf("%s: %v", nodes[i].Name, err)
			}
		})
	}
	wg.Wait()
	var away []string
	for _, why := range failed {
		if why != "" {
			away = append(away, why)
		}
	}
	c.Found = fmt.Sprintf("%d listed, %d answer", len(nodes), len(nodes)-len(away))
	if len(away) > 0 {
		c.State, c.Found = Warning, c.Found+": "+strings.Join(away, "; ")
		c.Remedy = "repair the network between this machine and these nodes, or their setting --advertise; skein node list shows what the nodes see of each other"
	}
	return c
}

// lives calls the health check of a node.
func lives(ctx context.Context, client *http.Client, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/livez", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer was %s", resp.Status)
	}
	return nil
}
