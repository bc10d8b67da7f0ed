package config

import (
	"fmt"
	"time"

	"skein.dev/skein/internal/workflow"
)

// beatsPerBalance is the least number of heartbeats between two decisions about the load, so that each
// decision has new figures of every node.
const beatsPerBalance = 2

// balanceOff is the value with which no shard moves because of its load.
const balanceOff = "off"

func balanceSetting() setting {
	return setting{name: "balance", def: text("30s"), set: func(c *Config, v string) error {
		c.Balance = 0
		if v == balanceOff {
			return nil
		}
		if err := setSpan(&c.Balance, v); err != nil {
			return fmt.Errorf("%w; it is a time such as 30s, or %s", err, balanceOff)
		}
		return nil
	}}
}

// checkBalance refuses decisions between which not every node has sent new figures.
func (c *Config) checkBalance() error {
	if least := beatsPerBalance * c.Heartbeat; c.Balance != 0 && c.Balance < least {
		return c.Wrong("balance", fmt.Errorf("%v is shorter than %d heartbeats of %v: set it to at least %v, or to %s", workflow.Duration(c.Balance), beatsPerBalance,
			workflow.Duration(c.Heartbeat), workflow.Duration(least), balanceOff))
	}
	return nil
}

// LoadHalf is the time after which work counts half in the load of a shard. It is 0, the default of the
// engine, if no shard moves because of its load.
func (c *Config) LoadHalf() time.Duration { return c.Balance }
