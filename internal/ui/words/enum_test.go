package words_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// members lists the names of an enum of the domain, whose numbers have no gap but
// for 0.
func members[E ~uint8](name func(E) string) (out []string) {
	for i := range 256 {
		switch s := name(E(i)); {
		case strings.HasSuffix(s, ")"):
			return out
		case s != "":
			out = append(out, s)
		}
	}
	return out
}

// constants lists the values of the string constants of a type in a file.
func constants(t *testing.T, file, typ string) (out []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		v, is := n.(*ast.ValueSpec)
		if !is || len(v.Values) != 1 {
			return true
		}
		if name, is := v.Type.(*ast.Ident); !is || name.Name != typ {
			return true
		}
		if s, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value); err == nil && s != "" {
			out = append(out, s)
		}
		return true
	})
	if len(out) == 0 {
		t.Fatalf("%s has no constants of type %s", file, typ)
	}
	return out
}

func reasonWord(s string) words.Word       { return words.ReasonOf(s).Word }
func ruleWord(s string) words.Word         { return words.RuleOf(s).Word }
func statusWord(s string) words.Word       { return words.StatusOf(s, nil) }
func viewWord(s string) words.Word         { return words.StatusOf("pending", &s) }
func openReasons(r lane.OpenReason) string { return r.String() }

// TestEveryEnumOfTheDomainHasWords: no value that the API can show lacks a word.
func TestEveryEnumOfTheDomainHasWords(t *testing.T) {
	t.Parallel()
	var rules []string
	for _, r := range alert.Rules() {
		rules = append(rules, r.Name)
	}
	types, err := hook.MatchOperational("*")
	if err != nil {
		t.Fatal(err)
	}
	operational := make([]string, len(types))
	for i, typ := range types {
		operational[i] = string(typ)
	}
	for name, tc := range map[string]struct {
		values []string
		word   func(string) words.Word
	}{
		"kinds":               {members(hook.AttemptKind.String), words.KindOf},
		"classes":             {members(hook.Class.String), words.ClassOf},
		"reasons":             {members(hook.Reason.String), reasonWord},
		"end reasons":         {members(hook.EndReason.String), words.EndReasonOf},
		"delivery states":     {members(hook.DeliveryState.String), statusWord},
		"delivery views":      {[]string{view.Held, view.Retrying}, viewWord},
		"endpoint states":     {members(hook.EndpointState.String), words.EndpointStatusOf},
		"endpoint reasons":    {append(constants(t, "../../dispatch/disable.go", "DisableReason"), "manual"), words.StatusReasonOf},
		"open reasons":        {[]string{openReasons(lane.OpenedByStreak), openReasons(lane.OpenedByRatio)}, words.OpenReasonOf},
		"breaker states":      {[]string{lane.Closed.String(), lane.Open.String(), lane.HalfOpen.String()}, words.BreakerOf},
		"paced by":            {constants(t, "../../lane/pacing.go", "PacedBy"), words.PacedByOf},
		"waits":               {view.Waits, words.WaitingForOf},
		"delay sources":       {members(hook.DelaySource.String), words.DelaySourceOf},
		"replay states":       {members(hook.ReplayState.String), words.ReplayStatusOf},
		"pause reasons":       {constants(t, "../../hook/replay.go", "PauseReason"), words.PauseReasonOf},
		"severities":          {members(hook.Severity.String), words.SeverityOf},
		"levels":              {members(hook.AlertLevel.String), words.LevelOf},
		"alert statuses":      {members(hook.AlertStatus.String), words.AlertStatusOf},
		"notices":             {members(hook.NoticeKind.String), words.NoticeOf},
		"results of notices":  {members(hook.NoticeResult.String), words.NoticeResultOf},
		"channels":            {members(hook.ChannelKind.String), words.ChannelOf},
		"signatures":          {members(hook.Scheme.String), words.SignatureOf},
		"bodies":              {members(hook.BodyMode.String), words.BodyOf},
		"trace contexts":      {members(hook.TraceContext.String), words.TraceContextOf},
		"scopes":              {members(hook.Scope.String), words.ScopeOf},
		"alert rules":         {rules, ruleWord},
		"operational events":  {operational, words.OperationalOf},
		"badges of endpoints": {[]string{"closed", "open", "paused", "disabled", "deleted"}, words.BreakerOf},
	} {
		if len(tc.values) < 2 {
			t.Errorf("%s: only %v", name, tc.values)
		}
		for _, v := range tc.values {
			checkWord(t, name, v, tc.word(v))
		}
		// What a later version adds is shown as it is.
		if w := tc.word("moon"); w.Word != "moon" || w.API != "moon" {
			t.Errorf("%s: %+v for an unknown value", name, w)
		}
		if w := tc.word(""); w.Word != words.None {
			t.Errorf("%s: %q for no value", name, w.Word)
		}
	}
}

// checkWord: a word is there, has the API's value beside it, and keeps to the style.
func checkWord(t *testing.T, what, value string, w words.Word) {
	t.Helper()
	known := w.Meaning != "" || w.Class != "" || w.Icon != "" || w.Word != value
	if w.API != value || w.Word == "" || w.Word == words.None || !known && what != "alert rules" {
		t.Errorf("%s: %q has the word %+v", what, value, w)
	}
	checkStyle(t, what+" "+value, w.Word+" "+w.Meaning)
}

// checkStyle: no exclamation, no please, no oops, no double blanks.
func checkStyle(t *testing.T, what, text string) {
	t.Helper()
	lower := strings.ToLower(text)
	for _, no := range []string{"!", "please", "oops", "sorry", "  ", " .", " ,", "..", "%!", "<nil>"} {
		if strings.Contains(lower, strings.ToLower(no)) {
			t.Errorf("%s: %q has %q", what, text, no)
		}
	}
}

// TestEveryEnumOfTheAPIHasWords walks the shapes of the API: an enum that is
// added to one of them fails here until it has words.
func TestEveryEnumOfTheAPIHasWords(t *testing.T) {
	t.Parallel()
	lookup := map[string]func(string) words.Word{
		"Alert.level": words.LevelOf, "Alert.severity": words.SeverityOf, "Alert.status": words.AlertStatusOf,
		"Notification.kind": words.NoticeOf, "Notification.result": words.NoticeResultOf, "AlertChannel.kind": words.ChannelOf,
		"ChannelTest.result": words.NoticeResultOf, "AlertRuleLevel.level": words.LevelOf, "Threshold.unit": words.UnitOf,
		"Delivery.status": statusWord, "Attempt.kind": words.KindOf, "Wait.source": words.DelaySourceOf,
		"Endpoint.status": words.EndpointStatusOf, "Endpoint.body": words.BodyOf, "Endpoint.trace_context": words.TraceContextOf,
		"Signature.scheme": words.SignatureOf, "Health.state": words.BreakerOf, "Lane.state": words.BreakerOf,
		"Lane.status": words.EndpointStatusOf, "Lane.limit_mode": words.LimitModeOf, "Replay.status": words.ReplayStatusOf,
		"ReplayEndpointCount.state": words.BreakerOf, "Gauges.breaker": words.BreakerOf, "Key.scope": words.ScopeOf, "Node.status": words.NodeStatusOf,
	}
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(typ.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if seen[typ] || !strings.HasSuffix(typ.PkgPath(), "/api/view") {
			return
		}
		seen[typ] = true
		for f := range typ.Fields() {
			walk(f.Type)
			enum, has := f.Tag.Lookup("enum")
			if !has {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			word := lookup[typ.Name()+"."+name]
			if word == nil {
				t.Errorf("%s.%s is an enum without words: %s", typ.Name(), name, enum)
				continue
			}
			for v := range strings.SplitSeq(enum, ",") {
				if w := word(v); w.Word == "" || w.API != v || w.Word == v && w.Meaning == "" && w.Class == "" && w.Icon == "" && typ.Name() != "Threshold" {
					t.Errorf("%s.%s: %q has the word %+v", typ.Name(), name, v, w)
				}
			}
		}
	}
	for _, v := range []any{
		view.Alert{},
		view.AlertChannel{},
		view.ChannelTest{},
		view.AlertRule{},
		view.Delivery{},
		view.Attempt{},
		view.Endpoint{},
		view.Event{},
		view.Lane{},
		view.OperationalEvent{},
		view.Policy{},
		view.Preset{},
		view.Replay{},
		view.ReplayPreview{},
		view.Stats{},
		view.Tenant{},
		view.Key{},
		view.Nodes{},
	} {
		walk(reflect.TypeOf(v))
	}
	if len(seen) < 20 {
		t.Errorf("only %d shapes were walked", len(seen))
	}
}

func TestRulesSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, r := range alert.Rules() {
		w := words.RuleOf(r.Name)
		if w.Do == "" || w.Word.Word == r.Name {
			t.Errorf("%s: %+v", r.Name, w)
		}
		checkStyle(t, r.Name, w.Do)
	}
	if r := words.RuleOf("moon"); r.Do != "" {
		t.Errorf("an unknown rule says %q", r.Do)
	}
}

func TestEmptyPlaces(t *testing.T) {
	t.Parallel()
	for _, p := range words.Places() {
		n := words.Empty(p)
		if n.Title == "" || !strings.HasSuffix(n.Text, ".") || p != words.NoMatch && n == words.Empty(words.NoMatch) {
			t.Errorf("%s: %+v", p, n)
		}
		checkStyle(t, string(p), n.Title+" "+n.Text)
	}
	if got := words.Empty("moon"); got != words.Empty(words.NoMatch) {
		t.Errorf("an unknown place says %+v", got)
	}
	for n, want := range map[uint64]string{
		0:          "0 deliveries have arrived in the last 24 h.",
		1:          "1 delivery has arrived in the last 24 h.",
		36_100_000: "36.1 M deliveries have arrived in the last 24 h.",
	} {
		if got := words.DeadLettersEmpty(n).Text; !strings.HasSuffix(got, want) {
			t.Errorf("%d: %q", n, got)
		}
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	five := 500
	zero := 0
	for want, got := range map[string]string{
		"500 server_error": words.Answer(&five, "server_error"),
		"connect_refused":  words.Answer(nil, "connect_refused"),
		"timeout":          words.Answer(&zero, "timeout"),
		"500":              words.Answer(&five, ""),
		"–":                words.Answer(nil, ""),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
