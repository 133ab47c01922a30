package evaluate

import (
	"context"
	"time"
)

// Round is one round, for those who measure it.
func (e *Evaluator) Round(ctx context.Context, now time.Time) error { return e.round(ctx, now) }
