package lane

import "time"

// bucket is a token bucket.
type bucket struct {
	n  float64
	at time.Time // when n was right; zero: full
}

// ready refills the bucket and returns when it holds a token.
func (b *bucket) ready(now time.Time, rate, burst float64) time.Time {
	const rounding = 1e-9
	switch {
	case b.at.IsZero():
		b.n = burst
		b.at = now
	case now.After(b.at):
		b.n = min(burst, b.n+now.Sub(b.at).Seconds()*rate)
		b.at = now
	}
	if b.n >= 1-rounding {
		return now
	}
	return later(now, b.at).Add(seconds((1-b.n)/rate) + time.Nanosecond)
}

// takeTokens takes what one request costs of the lane's own rate and of the
// operator's, or nothing.
func (l *Lane) takeTokens(now time.Time) bool {
	if l.tokensAt(now).After(now) {
		return false
	}
	l.flow.take(now)
	if l.cfg.Rate > 0 {
		l.rate.n--
	}
	return true
}

// tokensAt is when the next request may start as far as rates go.
func (l *Lane) tokensAt(now time.Time) time.Time {
	at := l.flow.ready(now)
	if l.cfg.Rate > 0 {
		at = later(at, l.rate.ready(now, l.cfg.Rate, float64(max(1, l.cfg.Burst))))
	}
	return at
}
