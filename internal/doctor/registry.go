package doctor

import (
	"context"
	"fmt"
	"time"

	"skein.dev/skein/internal/config"
)

// registryCheckMax bounds the check of the registry.
const registryCheckMax = 10 * time.Second

// checkRegistry reads the list of nodes from the registry of the settings.
func checkRegistry(ctx context.Context, cfg *config.Config) []Check {
	if cfg.Registry.Kind == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, registryCheckMax)
	defer cancel()
	c := Check{Name: "registry", State: Good, Found: cfg.Registry.Where()}
	lives, err := cfg.Registry.Open().Probe(ctx)
	if err != nil {
		c.State, c.Found = Warning, cfg.Registry.Where()+": "+err.Error()
		c.Remedy = fmt.Sprintf("correct the setting registry, or start the registry; until then a dead node is noticed after %v (lag) instead of %v", cfg.Lag, cfg.Failover())
		return []Check{c}
	}
	c.Found += fmt.Sprintf(", lists %d nodes; a dead one is noticed after about %v", lives, cfg.Failover())
	return []Check{c}
}
