package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// alertsLost is the age up to which doctor reports messages that a channel refused.
const alertsLost = 24 * time.Hour

// checkAlerts finds channels that have refused messages.
func checkAlerts(ctx context.Context, db store.Store) Check {
	c := Check{Name: "alerts", State: Good}
	failed := func(err error) Check { return Check{Name: c.Name, State: Warning, Found: err.Error()} }
	now, err := db.Clock(ctx)
	if err != nil {
		return failed(err)
	}
	channels, err := db.AlertChannels(ctx)
	if err != nil {
		return failed(err)
	}
	all, err := db.AlertTroubles(ctx, now-dag.Micros(alertsLost.Microseconds()))
	if err != nil {
		return failed(err)
	}
	c.Found = fmt.Sprintf("%d channels", len(channels))
	if len(all) == 0 {
		return c
	}
	var parts []string
	for _, t := range all {
		parts = append(parts, fmt.Sprintf("channel %s/%s: %d messages wait after a failed call, %d were lost within a day (%s)", t.Namespace, t.Name, t.Pending, t.Lost, t.Error))
	}
	c.State, c.Found = Warning, strings.Join(parts, "; ")
	c.Remedy = fmt.Sprintf("repair the channel, and try it: skein alert test %s/%s", all[0].Namespace, all[0].Name)
	return c
}
