package line

import "time"

// Shorten makes lines end sooner.
func (l *Lines) Shorten(life time.Duration) { l.life = life }
