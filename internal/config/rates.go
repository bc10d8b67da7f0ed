package config

import (
	"strconv"

	"skein.dev/skein/internal/auth"
)

// ratesMost bounds the settings of rates: calls a second.
const ratesMost = 100_000

func rateSettings() []setting {
	return []setting{
		{name: "session_rate", def: func() string { return strconv.Itoa(auth.SessionRateDefault) }, set: func(c *Config, v string) error { return setRate(&c.Rates.Sessions, v) }},
		{name: "token_rate", def: text("0"), set: func(c *Config, v string) error { return setRate(&c.Rates.Tokens, v) }},
	}
}

// setRate reads a number of calls a second; 0 is any number.
func setRate(to *int, v string) error {
	if v == "0" {
		*to = 0
		return nil
	}
	return setCount(to, v, ratesMost)
}
