package rest

import (
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// control bounds what changes of configuration cost: each writes rows and an
// audit record, however small it is.
type control struct {
	rate float64      // changes a second of a tenant's key; 0: any number
	room func() error // nil: always

	mu   sync.Mutex
	keys map[hook.ID]*rate.Limiter
}

// controlBurst is how long a key may save up its changes: whoever sets up many
// endpoints does so at once.
const controlBurst = time.Minute

// maxLimitedKeys bounds the keys in memory; past it all start anew.
const maxLimitedKeys = 10_000

func newControl(cfg *Config) *control {
	return &control{rate: cfg.KeyWriteRate, room: cfg.ControlRoom, keys: map[hook.ID]*rate.Limiter{}}
}

// changes reports whether the route writes to the store on a person's word. The
// read of a secret does: it leaves a record.
func (rt *route) changes() bool {
	return rt.need == NeedWrite || rt.need == NeedAdmin && rt.Method != http.MethodGet
}

// admit refuses a change that comes too soon after others, or for which the disk
// has no room left. Admin keys are the operator's own: they are not limited, and
// may delete while the disk fills up, to end what fills it.
func (ct *control) admit(c *Call) error {
	if !c.route.changes() {
		return nil
	}
	operator := c.Key.Scope == hook.ScopeAdmin
	if ct.room != nil && (!operator || c.route.Method != http.MethodDelete) {
		if err := ct.room(); err != nil {
			return fmt.Errorf("change: %w", err)
		}
	}
	if ct.rate == 0 || operator || ct.limiter(c.Key.ID).AllowN(c.Now, 1) {
		return nil
	}
	p := NewProblem(http.StatusTooManyRequests, "rate_limited",
		fmt.Sprintf("a key may make %g changes a second (api.key_write_rate)", ct.rate))
	p.retryAfter = time.Duration(math.Ceil(1/ct.rate)) * time.Second
	return p
}

func (ct *control) limiter(key hook.ID) *rate.Limiter {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	l := ct.keys[key]
	if l == nil {
		if len(ct.keys) >= maxLimitedKeys {
			clear(ct.keys)
		}
		l = rate.NewLimiter(rate.Limit(ct.rate), max(1, int(ct.rate*controlBurst.Seconds())))
		ct.keys[key] = l
	}
	return l
}
