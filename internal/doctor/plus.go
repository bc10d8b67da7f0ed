package doctor

import (
	"context"
	"errors"

	"skein.dev/skein/internal/stamp"
)

// checkPlus looks for the program skein-plus. Only triggers of message brokers need it.
func checkPlus(ctx context.Context) Check {
	c := Check{Name: "skein-plus", State: Good}
	switch is, err := stamp.PlusVersion(ctx); {
	case err == nil:
		c.Found = is + ", next to this program"
		if stamp.Inside {
			c.Found = is + ", a part of this program"
		}
	case errors.Is(err, stamp.ErrNoPlus):
		c.Found = "none; only triggers and connections of brokers need it"
	default:
		c.State, c.Found, c.Remedy = Warning, err.Error(), "install skein and skein-plus of one release in one folder"
	}
	return c
}
