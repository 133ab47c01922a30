package trace

import "time"

// CloseWithin is Close with another bound.
func (t *Tracer) CloseWithin(limit time.Duration) { t.closeWithin(limit) }
