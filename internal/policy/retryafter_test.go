package policy_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/policy"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	noonDate     = "Sun, 01 Mar 2026 12:00:00 GMT"
	minuteLater  = "Sun, 01 Mar 2026 12:01:00 GMT"
	minuteRFC850 = "Sunday, 01-Mar-26 12:01:00 GMT"
	minuteANSIC  = "Sun Mar  1 12:01:00 2026"
)

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values []string
		date   string
		want   time.Duration // 0: unusable
	}{
		"seconds":                  {values: []string{"60"}, want: time.Minute},
		"one second":               {values: []string{"1"}, want: time.Second},
		"leading zeros":            {values: []string{"0060"}, want: time.Minute},
		"spaces and tabs":          {values: []string{" \t60\t "}, want: time.Minute},
		"IMF date":                 {values: []string{minuteLater}, want: time.Minute},
		"RFC 850 date":             {values: []string{minuteRFC850}, want: time.Minute},
		"asctime date":             {values: []string{minuteANSIC}, want: time.Minute},
		"date against Date header": {values: []string{minuteLater}, date: "Sun, 01 Mar 2026 11:59:00 GMT", want: 2 * time.Minute},
		"clock two years ahead":    {values: []string{"Wed, 01 Mar 2028 12:00:30 GMT"}, date: "Wed, 01 Mar 2028 12:00:00 GMT", want: 30 * time.Second},
		"broken Date header":       {values: []string{minuteLater}, date: "yesterday", want: time.Minute},
		"seconds ignore Date":      {values: []string{"60"}, date: "Sun, 01 Mar 2026 11:00:00 GMT", want: time.Minute},
		"several lines":            {values: []string{"5", "120", "30"}, want: 2 * time.Minute},
		"usable among unusable":    {values: []string{"-5", "soon", "7", ""}, want: 7 * time.Second},
		"date and seconds":         {values: []string{"30", minuteLater}, want: time.Minute},
		"30 digits":                {values: []string{strings.Repeat("9", 30)}, want: math.MaxInt64},
		"60 digits":                {values: []string{strings.Repeat("1", 60)}, want: math.MaxInt64},
		"1e12 seconds in digits":   {values: []string{"1000000000000"}, want: math.MaxInt64},
		"just fits":                {values: []string{"9223372036"}, want: 9223372036 * time.Second},
		"year 2999":                {values: []string{"Fri, 01 Mar 2999 12:00:00 GMT"}, want: math.MaxInt64},

		"absent":               {},
		"empty":                {values: []string{""}},
		"blank":                {values: []string{" \t "}},
		"negative":             {values: []string{"-5"}},
		"minus one":            {values: []string{"-1"}},
		"plus":                 {values: []string{"+5"}},
		"fraction":             {values: []string{"1.5"}},
		"unit":                 {values: []string{"60s"}},
		"exponent":             {values: []string{"1e3"}},
		"hex":                  {values: []string{"0x10"}},
		"underscore":           {values: []string{"1_000"}},
		"inner space":          {values: []string{"1 0"}},
		"list in one line":     {values: []string{"60, 120"}},
		"Arabic digits":        {values: []string{"٦٠"}},
		"full-width digits":    {values: []string{"６０"}},
		"no-break space":       {values: []string{"\u00a060"}},
		"line feed":            {values: []string{"60\n"}},
		"zero":                 {values: []string{"0"}},
		"zeros":                {values: []string{"000"}},
		"past date":            {values: []string{"Sun, 01 Mar 2026 11:59:59 GMT"}},
		"the very moment":      {values: []string{noonDate}},
		"1970":                 {values: []string{"Thu, 01 Jan 1970 00:00:00 GMT"}},
		"past by Date header":  {values: []string{minuteLater}, date: "Sun, 01 Mar 2026 12:02:00 GMT"},
		"not a date":           {values: []string{"tomorrow"}},
		"date in another zone": {values: []string{"Sun, 01 Mar 2026 12:01:00 PST"}},
		"RFC 3339":             {values: []string{"2026-03-01T12:01:00Z"}},
		"impossible date":      {values: []string{"Sun, 31 Feb 2026 12:01:00 GMT"}},
		"JSON":                 {values: []string{`{"retry_after":60}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := policy.ParseRetryAfter(tc.values, tc.date, noon)
			if got != tc.want || ok != (tc.want > 0) {
				t.Errorf("ParseRetryAfter(%q, %q) = %v, %v; want %v", tc.values, tc.date, got, ok, tc.want)
			}
		})
	}
}

func TestParseRetryAfterReadsEverySecondCount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringMatching(`[0-9]{1,40}`).Draw(t, "digits")
		got, ok := policy.ParseRetryAfter([]string{digits}, "", noon)
		if zero := strings.Trim(digits, "0") == ""; ok == zero {
			t.Fatalf("%q usable = %v", digits, ok)
		}
		if len(strings.TrimLeft(digits, "0")) > 10 && got != math.MaxInt64 {
			t.Fatalf("%q = %v, want the greatest duration", digits, got)
		}
	})
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, seed := range []string{"60", "0", "-5", "1e3", minuteLater, minuteRFC850, minuteANSIC, strings.Repeat("9", 30), "\x00", "Mon, 99 Xxx 0000 99:99:99 GMT"} {
		f.Add(seed, "7", noonDate, noon.Unix())
		f.Add(seed, seed, seed, int64(math.MinInt64))
	}
	f.Fuzz(func(t *testing.T, a, b, date string, unix int64) {
		now := time.Unix(unix, 0)
		got, ok := policy.ParseRetryAfter([]string{a, b}, date, now)
		if got < 0 || ok != (got > 0) {
			t.Fatalf("ParseRetryAfter(%q, %q, %q) = %v, %v", a, b, date, got, ok)
		}
		first, _ := policy.ParseRetryAfter([]string{a}, date, now)
		second, _ := policy.ParseRetryAfter([]string{b}, date, now)
		if got != max(first, second) {
			t.Fatalf("two lines give %v, alone %v and %v", got, first, second)
		}
	})
}
