package filter_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/filter"
)

const order = `{"id":9007199254740993,"total":120.5,"currency":"EUR","customer":{"country":"DE","name":"Jürgen","vip":true},
	"lines":[{"sku":"a-1","n":2},{"sku":"b-2","n":0}],"tags":["new","web"],"note":null}`

func event(t testing.TB, payload string) *filter.Event {
	t.Helper()
	v, err := filter.Decode([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return &filter.Event{Type: "order.paid", Tenant: "acme", Payload: v}
}

func match(t testing.TB, text string, e *filter.Event) (bool, error) {
	t.Helper()
	p, err := filter.Compile(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p.Match(e)
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`payload.total > 100`:                                             true,
		`payload.total > 100 && payload.currency == "USD"`:                false,
		`payload.total > 100 and not (payload.currency == "USD")`:         true,
		`type == "order.paid" && tenant == "acme"`:                        true,
		`type startsWith "order." and type endsWith ".paid"`:              true,
		`payload.customer.country in ["DE", "AT", "CH"]`:                  true,
		`payload.customer.country not in ["DE", "AT", "CH"]`:              false,
		`"web" in payload.tags`:                                           true,
		`"total" in payload`:                                              true,
		`"missing" in payload`:                                            false,
		`any(payload.lines, .sku == "b-2" && .n == 0)`:                    true,
		`all(payload.lines, .n > 0)`:                                      false,
		`none(payload.lines, .n > 2)`:                                     true,
		`one(payload.lines, .n == 2)`:                                     true,
		`count(payload.lines, .n > 0) == 1`:                               true,
		`any(payload.lines, any(payload.tags, # startsWith "n"))`:         true,
		`payload.lines | any(.n == 2)`:                                    true,
		`payload.lines[0].sku == "a-1" && payload.lines[-1].sku == "b-2"`: true,
		`payload["currency"] == "EUR"`:                                    true,
		`payload.id == 9007199254740993`:                                  true,
		`payload.id == 9007199254740992`:                                  false,
		`payload.customer.name contains "ürg"`:                            true,
		`payload.customer.name matches "^J.rgen$"`:                        true,
		`lower(payload.customer.name) == "jürgen"`:                        true,
		`upper(trim("  a ")) == "A"`:                                      true,
		`len(payload.customer.name) == 6 && len(payload.lines) == 2`:      true,
		`payload.customer.vip`:                                            true,
		`!payload.customer.vip`:                                           false,
		`payload.note == nil`:                                             true,
		`payload.missing == nil`:                                          true,
		`payload.missing?.deeper == nil`:                                  true,
		`(payload.missing ?? 5) > 3`:                                      true,
		`payload.missing contains "x"`:                                    false,
		`payload.total * 2 - 1 == 240`:                                    true,
		`payload.currency + "!" == "EUR!"`:                                true,
		`payload.total > 1000 ? false : payload.tags == ["new", "web"]`:   true,
		`payload.customer != payload.lines`:                               true,
		`1 < 2.5 && -1 < 0`:                                               true,
		`true`:                                                            true,
	} {
		if got, err := match(t, text, event(t, order)); err != nil || got != want {
			t.Errorf("%s = %t, %v; want %t", text, got, err, want)
		}
	}
}

// TestPayloadsThatAreNotJSON: they are null for filters.
func TestPayloadsThatAreNotJSON(t *testing.T) {
	t.Parallel()
	e := &filter.Event{Type: "a"}
	for text, want := range map[string]bool{`payload == nil`: true, `type == "a"`: true, `payload?.x == 1`: false} {
		if got, err := match(t, text, e); err != nil || got != want {
			t.Errorf("%s = %t, %v", text, got, err)
		}
	}
}

// TestErrorsOfEvaluation: what an expression cannot say about a payload is told, in a
// line.
func TestErrorsOfEvaluation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`payload.missing > 100`:              "",
		`payload.currency > 100`:             "",
		`payload.missing.deeper == 1`:        "",
		`payload.lines[7].sku == "x"`:        "",
		`payload.currency`:                   "neither true nor false",
		`payload.customer`:                   "neither true nor false",
		`payload.currency && true`:           "",
		`len(payload.total) > 1`:             "a number has no length",
		`payload.total contains "1"`:         "must be texts",
		`payload.total matches "1"`:          "must be a text",
		`lower(payload.total) == ""`:         "needs a text",
		`"x" in payload.currency`:            "in needs a list or an object",
		`payload.lines + payload.lines == 1`: "",
		`1 % (payload.total - 120.5) == 0`:   "",
	} {
		got, err := match(t, text, event(t, order))
		if err == nil || got || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n\t") || len(err.Error()) > 310 {
			t.Errorf("%s = %t, %v; want an error that says %q", text, got, err, want)
		}
	}
}

// TestCompileRefuses: an expression that is wrong, or could cost anything, is not
// taken, and the answer says where the mistake is.
func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for text, at := range map[string]int{
		``:                                 1,
		`   `:                              1,
		`payload.total >`:                  15,
		`payload.total > 100 &&& 1`:        23,
		`payload.total > 100)`:             20,
		`foo > 1`:                          1,
		`payload.x == 1 && foo`:            19,
		`type > 1`:                         6,
		`type == 1`:                        6,
		`"a"`:                              1,
		`1 + 1`:                            1,
		`type`:                             1,
		`type contains 1`:                  6,
		`payload.total > 100; true`:        15,
		`let x = 1; x == 1`:                5,
		`$env["$meter"] == nil`:            1,
		`$meter == nil`:                    1,
		`$step($meter, 1)`:                 1,
		`1..1000000000 == nil`:             2,
		`len(1..1000000000) > 1`:           6,
		`payload.a[1:2] == nil`:            10,
		`{"a": 1} == payload`:              1,
		`repeat("a", 1000000000) == "a"`:   1,
		`toJSON(payload) contains "x"`:     1,
		`fromJSON("[1]") == nil`:           1,
		`now() > payload.at`:               1,
		`map(payload.a, #) == nil`:         1,
		`filter(payload.a, true) == nil`:   1,
		`reduce(payload.a, #acc + #) == 1`: 1,
		`sortBy(payload.a, #) == nil`:      1,
		`sum(payload.a) > 1`:               1,
		`split(type, "") == nil`:           1,
		`flatten(payload.a) == nil`:        1,
		`payload.f() == 1`:                 9,
		`type("x") == "string"`:            1,
		`len() > 1`:                        1,
		`len(type, type) > 1`:              1,
		`any(payload.a)`:                   0,
		`count(payload.a) > 0`:             0,
		`2 ** 3 == 8`:                      3,
		`payload.a matches payload.b`:      27,
		`payload.a matches "("`:            11,
		`payload.a matches "a{1001}"`:      11,
		`payload.a matches "(x{100}){9}"`:  19,
		`payload.a matches ".{400}.{400}"`: 19,
		"\xff":                             1,
		strings.Repeat("é", 1001):          1001,
		strings.Repeat("(", 900):           0,
		strings.Repeat("!", 900) + "true":  0,
		strings.Repeat("[", 400) + strings.Repeat("]", 400) + "==1": 0,
		`[` + strings.Repeat("1,", 490) + `1] == 1`:                 0,
	} {
		_, err := filter.Compile(text)
		var wrong *filter.SyntaxError
		if !errors.As(err, &wrong) || at != 0 && wrong.At != at || wrong.At < 1 || strings.Contains(wrong.Message, "\n") {
			t.Errorf("%.60q: %v, want an error at character %d", text, err, at)
		}
	}
	if _, err := filter.Compile(`type == "` + strings.Repeat("é", filter.MaxLength-10) + `"`); err != nil {
		t.Errorf("the longest expression: %v", err)
	}
}

// TestHostileExpressionsEnd: each is small, and would take hours, or all memory, if
// anybody let it.
func TestHostileExpressionsEnd(t *testing.T) {
	t.Parallel()
	wide := "[" + strings.Repeat("1,", 200_000) + "1]"
	long := strings.Repeat("a", 300_000)
	big := fmt.Sprintf(`{"l":%s,"s":%q,"t":%q,"w":[%s[]]}`, wide, long, long, strings.Repeat("[],", 50_000))
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	for name, tc := range map[string]struct{ text, payload string }{
		"loops in loops":         {`any(payload.l, any(payload.l, any(payload.l, any(payload.l, # == 2))))`, big},
		"a long loop":            {`count(payload.l, # == 2 || # == 3 || # == 4 || # == 5 || # == 6) > 7`, big},
		"much in each turn":      {`any(payload.l, ` + strings.Repeat("1+", 150) + `1 == 2)`, big},
		"plain sums in each":     {`any(payload.l, ` + strings.Repeat("1-", 180) + `1 == 2)`, big},
		"texts compared":         {`any(payload.l, payload.s != payload.t)`, big},
		"texts searched":         {`any(payload.l, payload.s contains "b")`, big},
		"texts matched":          {`any(payload.l, payload.s matches "(a|aa)+b$")`, big},
		"a large pattern":        {`payload.s matches "^(a?){60}a{60}b"`, big},
		"texts joined":           {`payload.s + payload.s + payload.s == "x"`, big},
		"texts joined in a loop": {`any(payload.l, payload.s + "x" == "y")`, big},
		"texts changed":          {`any(payload.l, upper(payload.s) == "y")`, big},
		"lengths":                {`any(payload.l, len(payload.s) == 1)`, big},
		"lists in lists":         {`any(payload.l, 7 in payload.l)`, big},
		"lists compared":         {`any(payload.l, payload.l != payload.l)`, big},
		"lists made":             {`any(payload.l, 7 in [1,2,3,4,5,6])`, big},
		"objects in depth":       {`any(payload, payload != payload)`, "[" + strings.Repeat(deep+",", 20) + "1]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := event(t, tc.payload)
			p, err := filter.Compile(tc.text)
			if err != nil {
				t.Fatalf("is refused: %v; that is fine, but try another one", err)
			}
			got, err := p.Match(e)
			if err == nil {
				t.Errorf("= %t, without an error", got)
			}
			// What one has used the others lack: a thousand end like one.
			for range 1000 {
				if _, err = p.Match(e); err == nil {
					t.Fatal("the budget of an event comes back")
				}
			}
			if name != "texts joined" && !errors.Is(err, filter.ErrTooMuch) {
				t.Errorf("ends with %v", err)
			}
		})
	}
}

// TestManyFiltersOfAnEvent: a thousand of the usual kind fit into what an event may
// cost.
func TestManyFiltersOfAnEvent(t *testing.T) {
	t.Parallel()
	e := event(t, order)
	for i := range 1000 {
		text := fmt.Sprintf(`payload.total > %d && any(payload.lines, .sku startsWith "b") && payload.customer.country in ["DE","AT"]`, i)
		if got, err := match(t, text, e); err != nil || got != (i <= 120) {
			t.Fatalf("filter %d = %t, %v", i, got, err)
		}
	}
}

// TestProgramsAreShared: many events use one program at a time.
func TestProgramsAreShared(t *testing.T) {
	t.Parallel()
	p, err := filter.Compile(`any(payload.lines, .n == 2 && payload.customer.name matches "J")`)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if got, err := p.Match(event(t, order)); err != nil || !got {
					t.Errorf("= %t, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "{", "1 2", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)} {
		if v, err := filter.Decode([]byte(bad)); err == nil {
			t.Errorf("%.20q = %v", bad, v)
		}
	}
	if v, err := filter.Decode([]byte(`[1e999, -0, 18446744073709551616]`)); err != nil || fmt.Sprint(v) != "[<nil> 0 1.8446744073709552e+19]" {
		t.Errorf("numbers = %v, %v", v, err)
	}
}

// FuzzFilter: no expression and no payload ends in a panic, or in an answer together
// with an error.
func FuzzFilter(f *testing.F) {
	for _, text := range []string{
		`payload.total > 100`, `any(payload.lines, .sku matches "a.*" && # != nil)`, `payload.a?.b[0] in ["x"] ? true : lower(type) == "y"`,
		`count(payload.lines, len(.sku) >= 1) - 1 < 2.5`, `payload.x + 1 == 2 or not (tenant startsWith "a")`, `(payload.a ?? "b") contains "c"`,
	} {
		f.Add(text, order)
	}
	f.Add(`# == .a`, `[[]]`)
	f.Fuzz(func(t *testing.T, text, payload string) {
		p, err := filter.Compile(text)
		if err != nil {
			var wrong *filter.SyntaxError
			if !errors.As(err, &wrong) || wrong.At < 1 || wrong.At > filter.MaxLength+1 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		v, err := filter.Decode([]byte(payload))
		if err != nil {
			return
		}
		e := &filter.Event{Type: "a.b", Payload: v}
		got, err := p.Match(e)
		if got && err != nil {
			t.Errorf("%q: true and %v", text, err)
		}
		if again, err2 := p.Match(e); again != got || (err == nil) != (err2 == nil) && !errors.Is(err2, filter.ErrTooMuch) {
			t.Errorf("%q: %t, %v and then %t, %v", text, got, err, again, err2)
		}
	})
}
