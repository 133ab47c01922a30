package words_test

import (
	"math"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 1: "1", 999: "999", 1000: "1,000", 4012: "4,012", 37310: "37,310", 1234567: "1,234,567", -1: "−1", -4012: "−4,012",
		math.MaxInt64: "9,223,372,036,854,775,807", math.MinInt64: "−9,223,372,036,854,775,808",
	} {
		same(t, "number", words.Number(n), want)
	}
	same(t, "unsigned", words.Number(uint64(math.MaxUint64)), "18,446,744,073,709,551,615")
	same(t, "none", words.NumberOr[int64](nil), "–")
	same(t, "some", words.NumberOr(new(int64(4012))), "4,012")
	same(t, "counted", words.AtLeast(10000, false), "10,000")
	same(t, "at least", words.AtLeast(10000, true), "at least 10,000")
	for n, want := range map[int]string{0: "0 deliveries", 1: "1 delivery", 2: "2 deliveries", 8120: "8,120 deliveries", -1: "−1 deliveries"} {
		same(t, "count", words.Count(n, "delivery", "deliveries"), want)
	}
	for n, want := range map[int]string{0: "0", 112: "+112", -4012: "−4,012"} {
		same(t, "change", words.Change(n), want)
	}
	for n, want := range map[int64]string{
		0: "0", 37310: "37,310", 999_999: "999,999", 1_490_000: "1.49 M", 36_100_000: "36.1 M", 999_400_000: "999 M", 999_600_000: "1 bn",
		2_300_000_000: "2.3 bn", -1_490_000: "−1.49 M",
	} {
		same(t, "short", words.Short(n), want)
	}
	for n, want := range map[int64]string{0: "0 B", 412: "412 B", 999: "999 B", 1500: "1.5 kB", 1 << 20: "1.05 MB", 3_200_000_000: "3.2 GB", math.MaxInt64: "9.22 EB"} {
		same(t, "size", words.Size(n), want)
	}
}

func TestDecimalsRatesAndPercentages(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"9.40": words.Ratio(9.4), "0.00": words.Ratio(0), "0.12": words.Ratio(0.1234), "1,204": words.Ratio(1204), "100": words.Ratio(99.999),
		"−1.2": words.Decimal(-1.24, 1), "0.0": words.Decimal(-0.01, 1), "1,234.50": words.Decimal(1234.5, 2),
		"–": words.Decimal(math.NaN(), 1), "∞": words.Decimal(math.Inf(1), 1), "−∞": words.Decimal(math.Inf(-1), 1),
	} {
		same(t, "decimal", got, want)
	}
	for p, want := range map[float64]string{
		0: "0 %", 100: "100 %", 97: "97.0 %", 98.6: "98.6 %", 12: "12.0 %", 99.98: "99.98 %", 99.99999: "99.99 %", 99.7: "99.70 %", 99: "99.0 %",
		0.03: "0.03 %", 0.001: "< 0.01 %", 0.999: "1.00 %", 12345: "12,345.0 %", -1.2: "−1.2 %", math.Inf(1): "–",
	} {
		same(t, "percent", words.Percent(p), want)
	}
	same(t, "no percentage", words.Percent(math.NaN()), "–")
	same(t, "no share", words.Share(nil), "–")
	for s, want := range map[float64]string{0: "0 %", 1: "100 %", 0.9999: "99.99 %", 0.997: "99.70 %", 0.9860: "98.6 %"} {
		same(t, "share", words.Share(&s), want)
	}
	for r, want := range map[float64]string{
		0: "0/s", 418: "418/s", 24.12: "24.1/s", 18: "18/s", 0.127: "0.13/s", 0.001: "< 0.01/s", 1250.4: "1,250/s", 99.96: "100/s", 1e9: "1,000,000,000/s",
	} {
		same(t, "rate", words.Rate(r), want)
	}
	same(t, "no rate", words.RateOr(nil), "–")
	same(t, "a rate", words.RateOr(new(2.0)), "2/s")
	same(t, "not a rate", words.Rate(math.NaN()), "–")
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Hour: "0 s", 0: "0 s", time.Microsecond: "< 1 ms", 168 * time.Millisecond: "168 ms", 999999 * time.Microsecond: "999 ms",
		14 * time.Second: "14 s", 59999 * time.Millisecond: "59 s", time.Minute: "1 m", 62 * time.Second: "1 m 02 s",
		6*time.Minute + 12*time.Second: "6 m 12 s", 22*time.Minute + 5*time.Second: "22 m 05 s", time.Hour - 1: "59 m 59 s", time.Hour: "1 h",
		2*time.Hour + 4*time.Minute: "2 h 04 m", 71*time.Hour + 53*time.Minute: "71 h 53 m", 72 * time.Hour: "3 d", 76 * time.Hour: "3 d 04 h",
		240 * time.Hour: "10 d", 26*24*time.Hour + time.Hour: "26 d", math.MaxInt64: "106,751 d",
	} {
		same(t, "duration", words.Duration(d), want)
	}
	for ms, want := range map[float64]string{
		0: "0 ms", 0.04: "< 0.1 ms", 0.42: "0.4 ms", 9.96: "10 ms", 168.4: "168 ms", 999.6: "1 s", 1900: "1.9 s", 2400: "2.4 s", 9960: "10 s",
		30000: "30 s", 62000: "1 m 02 s", 1e300: "106,751 d", -1: "–", math.Inf(1): "–",
	} {
		same(t, "latency", words.Latency(ms), want)
	}
	same(t, "not a latency", words.Latency(math.NaN()), "–")
	same(t, "no latency", words.LatencyOr(nil), "–")
	same(t, "a latency", words.LatencyOr(new(12.0)), "12 ms")
}

var now = time.Date(2026, 11, 16, 3, 12, 40, 0, time.UTC)

func TestTimes(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for want, got := range map[string]string{
		"03:12:40":         words.Clock(now, now),
		"15 Nov 18:12":     words.Clock(ago(9*time.Hour), now),
		"2025-11-12 08:14": words.Clock(time.Date(2025, 11, 12, 8, 14, 9, 0, time.UTC), now),
		"2027-01-01 00:00": words.Clock(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), now),
		"00:30:00":         words.Clock(time.Date(2026, 11, 16, 3, 30, 0, 0, time.FixedZone("east", 3*3600)), now),
		"–":                words.Clock(time.Time{}, now),
		"03:13":            words.About(now, now),
		"17 Nov 03:15":     words.About(now.Add(24*time.Hour+2*time.Minute), now),
		"5 s ago":          words.Age(ago(5*time.Second), now),
		"3 h 10 m ago":     words.Age(ago(3*time.Hour+10*time.Minute+59*time.Second), now),
		"in 14 s":          words.In(now.Add(13001*time.Millisecond), now),
		"in 1 m":           words.In(now.Add(59*time.Second+1), now),
		"in 17 m 20 s":     words.In(now.Add(17*time.Minute+20*time.Second), now),
		"in 71 h 53 m":     words.In(now.Add(71*time.Hour+52*time.Minute+1), now),
		"in 18 d":          words.In(now.Add(17*24*time.Hour+time.Second), now),
		"in 106,751 d":     words.In(now.Add(math.MaxInt64), now),

		"2026-11-16 03:12:40 UTC": words.Moment(now),
	} {
		same(t, "time", got, want)
	}
	same(t, "age of now", words.Age(now, now), "now")
	same(t, "age of what is to come", words.Age(now.Add(time.Hour), now), "now")
	same(t, "in of what was", words.In(ago(time.Hour), now), "now")
	same(t, "no age", words.Age(time.Time{}, now), "–")
	same(t, "no due time", words.In(time.Time{}, now), "–")
	same(t, "no moment", words.Moment(time.Time{}), "–")
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]words.Address{
		"https://hooks.harborpay.example/v2/events": {Scheme: "https://", Host: "hooks.harborpay.example", Path: "/v2/events"},
		"http://127.0.0.1:9000/":                    {Scheme: "http://", Host: "127.0.0.1:9000"},
		"https://a.example/a/long/path?with=query":  {Scheme: "https://", Host: "a.example", Path: "/a/long/pat…"},
		"https://a-very-long-host-name.example/":    {Scheme: "https://", Host: "a-very-long-host-name.example"},
		"https://a.example?q=1":                     {Scheme: "https://", Host: "a.example", Path: "?q=1"},
		"https://[2001:db8::1]:8443/x":              {Scheme: "https://", Host: "[2001:db8::1]:8443", Path: "/x"},
		"https://a.example/ääääääääääääää":          {Scheme: "https://", Host: "a.example", Path: "/ääääääääää…"},
		"nonsense": {Host: "nonsense"},
		"":         {},
	} {
		want.Full = url
		if got := words.OfURL(url, 12); got != want {
			t.Errorf("%q: %+v, want %+v", url, got, want)
		}
	}
	a := words.OfURL("https://user:secret@a.example/x", 0)
	if a.Host != "a.example" || a.Full != "https://a.example/x" || a.String() != "a.example/x" {
		t.Errorf("a password is shown: %+v", a)
	}
	same(t, "cut", words.Cut("abcdef", 3), "ab…")
	same(t, "cut to nothing", words.Cut("abcdef", 1), "a…")
	same(t, "not cut", words.Cut("abcdef", 6), "abcdef")
	same(t, "never cut", words.Cut("abcdef", 0), "abcdef")
}
