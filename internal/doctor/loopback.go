package doctor

import (
	"skein.dev/skein/internal/config"
)

// checkLoopback reports who may call the node.
func checkLoopback(cfg *config.Config) Check {
	c := Check{Name: "loopback", State: Good, Found: "callers show a token; programs of this user find it by themselves"}
	switch {
	case cfg.Exposed():
		c.Found = "the node listens beyond loopback; callers show a token"
	case cfg.LoopbackOpen:
		c.State, c.Found = Warning, "loopback is open: every user of this machine can run commands as the user of the node; the next version has no such setting"
		c.Remedy = "remove the setting loopback; use skein api in place of curl, or send what skein token local prints"
	}
	return c
}
