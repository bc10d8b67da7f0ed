package config

import (
	"fmt"
	"time"

	"skein.dev/skein/internal/workflow"
)

// beatsPerBalance is the least number of heartbeats between two decisions about the load, so that each
// decision has new data of every node.
const beatsPerBalance = 2

// balanceOff is the value of the setting that prevents shards from moving because of their load.
const balanceOff = "off"

func balanceSetting() setting {
	return setting{name: "balance", def: text("30s"), set: func(c *Config, v string) error {
		c.Balance = 0
		if v == balanceOff {
			return nil
		}
		if err := setSpan(&c.Balance, v); err != nil {
			return fmt.Errorf("%w; write a time such as 30s, or %s", err, balanceOff)
		}
		return nil
	}}
}

// checkBalance refuses an interval that is too short for new data of every node.
func (c *Config) checkBalance() error {
	if least := beatsPerBalance * c.Heartbeat; c.Balance != 0 && c.Balance < least {
		return c.Wrong("balance", fmt.Errorf("%v is shorter than %d heartbeats of %v: set it to at least %v, or to %s", workflow.Duration(c.Balance), beatsPerBalance,
			workflow.Duration(c.Heartbeat), workflow.Duration(least), balanceOff))
	}
	return nil
}

// LoadHalf returns the half-life of work in the load of a shard. It returns 0, which is the default of the
// engine, if no shard moves because of its load.
func (c *Config) LoadHalf() time.Duration { return c.Balance }
