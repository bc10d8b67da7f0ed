package config

import (
	"time"

	"skein.dev/skein/internal/workflow"
)

// boundsMost is the greatest value of a bound. In practice it means all.
const boundsMost = 1_000_000_000

// boundSettings returns the settings of retention.Bounds.
func boundSettings() []setting {
	age := func(name, otherwise string, to func(*Config) *time.Duration) setting {
		return setting{name: name, def: text(otherwise), set: func(c *Config, v string) error {
			d, err := workflow.ParseDuration(v)
			*to(c) = time.Duration(d)
			return err
		}}
	}
	number := func(name, otherwise string, to func(*Config) *int) setting {
		return setting{name: name, def: text(otherwise), set: func(c *Config, v string) error { return setCount(to(c), v, boundsMost) }}
	}
	return []setting{
		age("retention_keys_age", "7d", func(c *Config) *time.Duration { return &c.Bounds.KeysAge }),
		number("retention_keys", "100000", func(c *Config) *int { return &c.Bounds.Keys }),
		age("retention_calls_age", "30d", func(c *Config) *time.Duration { return &c.Bounds.CallsAge }),
		number("retention_calls", "1000000", func(c *Config) *int { return &c.Bounds.Calls }),
		age("retention_events_age", "7d", func(c *Config) *time.Duration { return &c.Bounds.EventsAge }),
		number("retention_events", "1000000", func(c *Config) *int { return &c.Bounds.Events }),
		age("retention_fires_age", "90d", func(c *Config) *time.Duration { return &c.Bounds.FiresAge }),
		age("retention_exceptions_age", "730d", func(c *Config) *time.Duration { return &c.Bounds.ExceptionsAge }),
		number("retention_fires", "100000", func(c *Config) *int { return &c.Bounds.Fires }),
		age("retention_days_age", "1825d", func(c *Config) *time.Duration { return &c.Bounds.DaysAge }),
		age("retention_tally_age", "400d", func(c *Config) *time.Duration { return &c.Bounds.TallyAge }),
		age("retention_backfills_age", "400d", func(c *Config) *time.Duration { return &c.Bounds.BackfillsAge }),
		number("retention_backfills", "1000", func(c *Config) *int { return &c.Bounds.Backfills }),
		number("retention_versions", "100", func(c *Config) *int { return &c.Bounds.Versions }),
		age("retention_records_age", "400d", func(c *Config) *time.Duration { return &c.Bounds.RecordsAge }),
		number("retention_records", "10000", func(c *Config) *int { return &c.Bounds.Records }),
	}
}

// Retention returns the retention of runs whose workflow has none.
func (c *Config) Retention() workflow.Retention {
	return workflow.Retention{Age: workflow.Duration(c.RetentionAge), Runs: int64(c.RetentionRuns)}
}
