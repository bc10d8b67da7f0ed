package line

import "time"

// Shorten has lines end sooner.
func (l *Lines) Shorten(life time.Duration) { l.life = life }
