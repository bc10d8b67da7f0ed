package config

import (
	"strconv"

	"skein.dev/skein/internal/auth"
)

// ratesMost bounds the settings of rates: calls a second, and open streams.
const ratesMost = 100_000

func rateSettings() []setting {
	return []setting{
		{name: "session_rate", def: func() string { return strconv.Itoa(auth.SessionRateDefault) }, set: func(c *Config, v string) error { return setRate(&c.Rates.Sessions, v) }},
		{name: "token_rate", def: text("0"), set: func(c *Config, v string) error { return setRate(&c.Rates.Tokens, v) }},
		{name: "session_streams", def: func() string { return strconv.Itoa(auth.SessionStreamsDefault) }, set: func(c *Config, v string) error { return setRate(&c.Rates.SessionStreams, v) }},
		{name: "token_streams", def: text("0"), set: func(c *Config, v string) error { return setRate(&c.Rates.TokenStreams, v) }},
	}
}

// setRate reads a number of calls a second, or of streams; 0 is any number.
func setRate(to *int, v string) error {
	if v == "0" {
		*to = 0
		return nil
	}
	return setCount(to, v, ratesMost)
}
