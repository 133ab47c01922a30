package quantity_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/quantity"
)

const day = 24 * time.Hour

func TestDurationsReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0s": 0, "10ms": 10 * time.Millisecond, "1.5s": 1500 * time.Millisecond, "1m": time.Minute, "1m30s": 90 * time.Second,
		"1h": time.Hour, "1h0m5s": time.Hour + 5*time.Second, "86h24m": 86*time.Hour + 24*time.Minute, "10h": 10 * time.Hour, "20m": 20 * time.Minute,
		"23h": 23 * time.Hour, "1d": day, "25h": 25 * time.Hour, "7d": 7 * day, "30d": 30 * day, "-24h": -day,
	} {
		got, err := quantity.ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v", text, got, err)
		}
		if shown := quantity.FormatDuration(want); shown != text {
			t.Errorf("FormatDuration(%v) = %q, want %q", want, shown, text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64().Draw(t, "ns"))
		if rapid.Bool().Draw(t, "whole days") {
			d -= d % day
		}
		if got, err := quantity.ParseDuration(quantity.FormatDuration(d)); err != nil || got != d {
			t.Fatalf("%d shown as %q reads as %v, %v", d, quantity.FormatDuration(d), got, err)
		}
	})
}

func TestDurationsOfOtherSpellings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "0d": 0, "168h": 7 * day, "60m": time.Hour, "106751d": 106751 * day,
	} {
		if got, err := quantity.ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "15", "-1d", "+1d", "1.5d", "1d12h", "1_0d", " 7d", "7 d", "106752d", "99999999999999999999d", "soon"} {
		if got, err := quantity.ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", text, got)
		}
	}
}

func TestBetween(t *testing.T) {
	t.Parallel()
	if got := quantity.Between(0, 30*day); got != "between 0s and 30d" {
		t.Errorf("Between = %q", got)
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"30s", "7d", "1h30m", "", "d", "-1d", "1.5d", "0", "99999999999d", "9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := quantity.ParseDuration(s)
		if err != nil {
			return
		}
		if days, ok := strings.CutSuffix(s, "d"); ok && (d < 0 || d%day != 0) {
			t.Errorf("ParseDuration(%q) = %v, which is not %s whole days", s, d, days)
		}
		if again, err := quantity.ParseDuration(quantity.FormatDuration(d)); err != nil || again != d {
			t.Errorf("%q is shown as %q, which reads as %v, %v", s, quantity.FormatDuration(d), again, err)
		}
	})
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "1 B": 1, "1023 B": 1023, "1 KiB": 1 << 10, "1536 B": 1536, "64 KiB": 64 << 10, "1 MiB": 1 << 20, "3 GiB": 3 << 30, "2 TiB": 2 << 40,
		"9223372036854775807 B": math.MaxInt64,
	} {
		got, err := quantity.ParseSize(text)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %v, %v", text, got, err)
		}
		if shown := quantity.FormatSize(want); shown != text {
			t.Errorf("FormatSize(%d) = %q, want %q", want, shown, text)
		}
	}
	if got, err := quantity.ParseSize("512MiB"); err != nil || got != 512<<20 {
		t.Errorf("512MiB = %v, %v", got, err)
	}
	for _, text := range []string{"", "1", "-1 B", "1.5 MiB", "1 MB", "B", "9223372036854775808 B", "9007199254740993 KiB"} {
		if got, err := quantity.ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %v, want an error", text, got)
		}
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	if n, err := quantity.ParseWhole("1_000_000"); err != nil || n != 1_000_000 {
		t.Errorf("1_000_000 = %v, %v", n, err)
	}
	for _, text := range []string{"", "1.5", "x", "9223372036854775808"} {
		if n, err := quantity.ParseWhole(text); err == nil {
			t.Errorf("ParseWhole(%q) = %v, want an error", text, n)
		}
	}
	if n, err := quantity.ParseNumber("1.5"); err != nil || n != 1.5 || quantity.FormatNumber(n) != "1.5" {
		t.Errorf("1.5 = %v, %v", n, err)
	}
	for _, text := range []string{"", "x", "NaN", "Inf"} {
		if n, err := quantity.ParseNumber(text); err == nil {
			t.Errorf("ParseNumber(%q) = %v, want an error", text, n)
		}
	}
	if got := quantity.FormatNumber(1e6); got != "1000000" {
		t.Errorf("1e6 is shown as %s", got)
	}
}
