package hook_test

import (
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTraceParentIsReadByTheStandard(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		parent: parent,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
		// A later version is read as far as it is known.
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":          parent,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-now": parent,

		"": "",
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.what": "",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":      "",
		"0g-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":      "",
		parent + "-": "",
		parent[:54]:  "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": "",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333x-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x": "",
		"00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": "",
		" " + parent[:54]: "",
	} {
		if got := hook.ReadTrace([]string{in}, nil); got != (hook.Trace{Parent: want}) {
			t.Errorf("%q is read as %+v, want %q", in, got, want)
		}
	}
	for name, values := range map[string][]string{"none": nil, "two": {parent, parent}} {
		if got := hook.ReadTrace(values, []string{"a=1"}); got != (hook.Trace{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTraceStateIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	many := strings.TrimSuffix(strings.Repeat("a=1,", 33), ",")
	for in, want := range map[string]string{
		"":                             "",
		"a=1":                          "a=1",
		" a=1 ,\t,0b@c=x y!,":          "a=1,0b@c=x y!",
		"a=" + long:                    "a=" + long,
		"a=" + long + "x":              "",
		"a=" + long + ",b=" + long:     "a=" + long, // 517 bytes: whole members go, the last first
		"a=" + long + ",b=" + long[7:]: "a=" + long + ",b=" + long[7:],
		many:                           "",
		many[4:]:                       many[4:],
		"a":                            "",
		"a=":                           "",
		"=1":                           "",
		"A=1":                          "",
		"@a=1":                         "",
		"a=1=2":                        "",
		"a=\x01":                       "",
		"a=é":                          "",
		"a=1,b":                        "",
	} {
		got := hook.ReadTrace([]string{parent}, []string{in})
		if got != (hook.Trace{Parent: parent, State: want}) {
			t.Errorf("%q is read as %q, want %q", in, got.State, want)
		}
		if len(got.State) > hook.MaxTraceState {
			t.Errorf("%q keeps %d bytes", in, len(got.State))
		}
	}
	if got := hook.ReadTrace([]string{parent}, []string{"a=1", "b=2"}); got.State != "a=1,b=2" {
		t.Errorf("two headers are read as %q", got.State)
	}
}

func TestTraceIsNotedBesideHops(t *testing.T) {
	t.Parallel()
	for _, plain := range []string{"application/json", "text/plain; charset=utf-8"} {
		for hops := range 3 {
			for _, trace := range []hook.Trace{{}, {Parent: parent}, {Parent: parent, State: "a=; breakwater-hops,b=x;y"}} {
				stored := hook.WithTrace(hook.WithHops(plain, hops), trace)
				if got, n := hook.CutHops(stored); got != plain || n != hops {
					t.Errorf("%q is read as %q with %d hops", stored, got, n)
				}
				if rest, got := hook.CutTrace(stored); got != trace || rest != hook.WithHops(plain, hops) {
					t.Errorf("%q is read as %q with %+v", stored, rest, got)
				}
			}
		}
	}
	for _, odd := range []string{"text/plain; breakwater-trace=", "text/plain; breakwater-trace=x", "text/plain; breakwater-trace=00-x"} {
		if got, trace := hook.CutTrace(odd); got != odd || trace != (hook.Trace{}) {
			t.Errorf("CutTrace(%q) = %q, %+v", odd, got, trace)
		}
	}
}

// TestReadingAndCuttingTracesCostsNothing: every event passes here, traced or
// not.
func TestReadingAndCuttingTracesCostsNothing(t *testing.T) {
	header := map[string][]string{"Content-Type": {"application/json"}, "Traceparent": {parent}}
	stored := hook.WithTrace("application/json", hook.Trace{Parent: parent, State: "a=1"})
	for name, run := range map[string]func(){
		"absent": func() { _ = hook.ReadTrace(header["Nothing"], header["Nothing"]) },
		"parent": func() { _ = hook.ReadTrace(header[hook.HeaderTraceParent], header[hook.HeaderTraceState]) },
		"cut":    func() { _, _ = hook.CutTrace(stored) },
		"plain":  func() { _, _ = hook.CutHops("application/json") },
		"none":   func() { _ = hook.WithTrace("application/json", hook.Trace{}) },
	} {
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// FuzzTrace: whatever a publisher sends, what is kept of it is well-formed and
// bounded, and comes back from the store as it was, beside any hops.
func FuzzTrace(f *testing.F) {
	f.Add(parent, "a=1,b=2", 1)
	f.Add("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x", "a=; breakwater-trace,b=; breakwater-hops=2", 0)
	f.Add("", strings.Repeat("a=1,", 40), 3)
	f.Fuzz(func(t *testing.T, header, state string, hops int) {
		hops = max(hops, 0)
		trace := hook.ReadTrace([]string{header}, []string{state})
		if trace.Parent == "" && trace.State != "" || trace.Parent != "" && len(trace.Parent) != len(parent) || len(trace.State) > hook.MaxTraceState {
			t.Fatalf("%q, %q is read as %+v", header, state, trace)
		}
		if again := hook.ReadTrace([]string{trace.Parent}, []string{trace.State}); again != trace {
			t.Fatalf("%+v is read as %+v", trace, again)
		}
		const plain = "text/plain; charset=utf-8"
		stored := hook.WithTrace(hook.WithHops(plain, hops), trace)
		rest, back := hook.CutTrace(stored)
		if got, n := hook.CutHops(stored); back != trace || rest != hook.WithHops(plain, hops) || got != plain || n != hops {
			t.Fatalf("%q is read as %q with %d hops and %+v", stored, got, n, back)
		}
	})
}
