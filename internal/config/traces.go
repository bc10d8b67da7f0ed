package config

import "skein.dev/skein/internal/trace"

// traceSettings determine which traces are exported, and where.
func traceSettings() []setting {
	return []setting{
		{name: "traces", def: text(""), set: setTraces},
		{name: "traces_headers_file", def: text(""), credential: "traces-headers", set: func(c *Config, v string) error {
			return setPath(&c.Traces.HeadersFile, v)
		}},
		{name: "traces_mode", def: text(trace.ModeRun), set: func(c *Config, v string) error {
			c.Traces.Mode = v
			return oneOf(v, trace.ModeRun, trace.ModeLinked)
		}},
		{name: "traces_protocol", def: text(trace.ProtocolJSON), set: func(c *Config, v string) error {
			c.Traces.Protocol = v
			return oneOf(v, trace.ProtocolJSON, trace.ProtocolProtobuf, trace.ProtocolGRPC)
		}},
		{name: "traces_sample", def: text("1"), set: func(c *Config, v string) (err error) {
			c.Traces.Sample, err = trace.ParseSample(v)
			return err
		}},
	}
}

func setTraces(c *Config, v string) (err error) {
	if c.Traces.URL = ""; v != "" {
		c.Traces.URL, err = trace.ParseURL(v)
	}
	return err
}
