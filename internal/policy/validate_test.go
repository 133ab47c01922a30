package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// findings returns the field errors of an error as "path message" lines.
func findings(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var invalid *hook.Invalid
	if !errors.As(err, &invalid) {
		t.Fatalf("error %v (%T) is not a *hook.Invalid", err, err)
	}
	if invalid.Code != "invalid_policy" {
		t.Errorf("code = %q", invalid.Code)
	}
	var lines []string
	for _, f := range invalid.Fields {
		lines = append(lines, f.Path+" "+f.Message)
	}
	return lines
}

const badDuration = `must be a duration such as "30s", "1h30m" or "7d"`

// What one level alone can break, and the same document resolved.
var levelErrors = map[string][]string{
	`{`:                            {`policy is not valid JSON: unexpected end of JSON input`},
	`{} {}`:                        {`policy is not valid JSON: invalid character '{' after top-level value`},
	`[]`:                           {`policy must be an object`},
	`"default"`:                    {`policy must be an object`},
	`5`:                            {`policy must be an object`},
	`{"retry":5}`:                  {`policy.retry must be an object`},
	`{"retry":[]}`:                 {`policy.retry must be an object`},
	`{"breaker":"on"}`:             {`policy.breaker must be an object`},
	`{"classify":{"statuses":[]}}`: {`policy.classify.statuses must be an object`},

	`{"retires":{}}`:                   {`policy.retires unknown key "retires"; known: preset, classify, retry, retry_after, timeout, concurrency, rate_limit, breaker, replay, disable_after`},
	`{"retry":{"max_attempt":3}}`:      {`policy.retry.max_attempt unknown key "max_attempt"; known: max_attempts, max_elapsed, initial_delay, min_delay, backoff, jitter`},
	`{"breaker":{"window":{"off":3}}}`: {`policy.breaker.window.off unknown key "off"; known: failed, of`},
	`{"retry.max_attempts":3}`:         {`policy.retry.max_attempts unknown key "retry.max_attempts"; known: preset, classify, retry, retry_after, timeout, concurrency, rate_limit, breaker, replay, disable_after`},
	`{"timeout":{"preset":"quick"}}`:   {`policy.timeout.preset unknown key "preset"; known: connect, total`},
	`{"classify":{"status":{}}}`:       {`policy.classify.status unknown key "status"; known: statuses, errors, limits, redirects, on_gone`},
	`{"retry":{"backoff":{"kind":"schedule","delays":["1s"],"steps":3}}}`: {`policy.retry.backoff.steps unknown key "steps"; known: kind, base, multiplier, cap, delays`},
	`{"":1}`: {`policy unknown key ""; known: preset, classify, retry, retry_after, timeout, concurrency, rate_limit, breaker, replay, disable_after`},

	`{"preset":5}`:      {`policy.preset must be a string`},
	`{"preset":"fast"}`: {`policy.preset unknown preset "fast"; known: default, full-5, ladder-5, doubling-9, ladder-9, tripling-8, quick, standard-webhooks, stripe, github, shopify, twilio, sendgrid, slack, paypal, discord`},

	`{"retry":{"max_attempts":0}}`:                 {`policy.retry.max_attempts must be between 1 and 50`},
	`{"retry":{"max_attempts":51}}`:                {`policy.retry.max_attempts must be between 1 and 50`},
	`{"retry":{"max_attempts":-1}}`:                {`policy.retry.max_attempts must be between 1 and 50`},
	`{"retry":{"max_attempts":1e999}}`:             {`policy.retry.max_attempts must be between 1 and 50`},
	`{"retry":{"max_attempts":2.5}}`:               {`policy.retry.max_attempts must be a whole number`},
	`{"retry":{"max_attempts":"8"}}`:               {`policy.retry.max_attempts must be a whole number`},
	`{"retry":{"max_attempts":true}}`:              {`policy.retry.max_attempts must be a whole number`},
	`{"retry":{"max_elapsed":"59s"}}`:              {`policy.retry.max_elapsed must be between 1m and 30d`},
	`{"retry":{"max_elapsed":"31d"}}`:              {`policy.retry.max_elapsed must be between 1m and 30d`},
	`{"retry":{"max_elapsed":3600}}`:               {`policy.retry.max_elapsed ` + badDuration},
	`{"retry":{"max_elapsed":"3600"}}`:             {`policy.retry.max_elapsed ` + badDuration},
	`{"retry":{"max_elapsed":"1.5d"}}`:             {`policy.retry.max_elapsed ` + badDuration},
	`{"retry":{"max_elapsed":"-7d"}}`:              {`policy.retry.max_elapsed ` + badDuration},
	`{"retry":{"max_elapsed":"d"}}`:                {`policy.retry.max_elapsed ` + badDuration},
	`{"retry":{"max_elapsed":"999999999999999d"}}`: {`policy.retry.max_elapsed ` + badDuration},
	`{"retry":{"initial_delay":"-1s"}}`:            {`policy.retry.initial_delay must be between 0s and 1d`},
	`{"retry":{"initial_delay":"25h"}}`:            {`policy.retry.initial_delay must be between 0s and 1d`},
	`{"retry":{"initial_delay":0}}`:                {`policy.retry.initial_delay ` + badDuration},
	`{"retry":{"min_delay":"9ms"}}`:                {`policy.retry.min_delay must be between 10ms and 1h`},
	`{"retry":{"min_delay":"61m"}}`:                {`policy.retry.min_delay must be between 10ms and 1h`},
	`{"retry":{"min_delay":"10500us"}}`:            {`policy.retry.min_delay must be whole milliseconds`},

	`{"retry":{"backoff":{"kind":"linear"}}}`:                 {`policy.retry.backoff.kind must be exponential or schedule`},
	`{"retry":{"backoff":{"kind":1}}}`:                        {`policy.retry.backoff.kind must be exponential or schedule`},
	`{"retry":{"backoff":{"base":"1ms"}}}`:                    {`policy.retry.backoff.base must be between 10ms and 1d`},
	`{"retry":{"backoff":{"base":"25h"}}}`:                    {`policy.retry.backoff.base must be between 10ms and 1d`},
	`{"retry":{"backoff":{"multiplier":0.9}}}`:                {`policy.retry.backoff.multiplier must be between 1 and 10`},
	`{"retry":{"backoff":{"multiplier":1e400}}}`:              {`policy.retry.backoff.multiplier must be between 1 and 10`},
	`{"retry":{"backoff":{"multiplier":"3"}}}`:                {`policy.retry.backoff.multiplier must be a number`},
	`{"retry":{"backoff":{"cap":"169h"}}}`:                    {`policy.retry.backoff.cap must be between 10ms and 7d`},
	`{"retry":{"backoff":{"kind":"schedule","delays":[]}}}`:   {`policy.retry.backoff.delays must hold 1 to 49 delays`},
	`{"retry":{"backoff":{"kind":"schedule","delays":"1s"}}}`: {`policy.retry.backoff.delays must be a list of durations`},
	`{"retry":{"backoff":{"kind":"schedule","delays":["1s","5ms",7,"169h"]}}}`: {
		`policy.retry.backoff.delays item 2: must be between 10ms and 7d`,
		`policy.retry.backoff.delays item 3: ` + badDuration,
		`policy.retry.backoff.delays item 4: must be between 10ms and 7d`,
	},
	`{"retry":{"backoff":{"kind":"schedule","delays":["1s"],"base":"2s","cap":"3s","multiplier":2}}}`: {
		`policy.retry.backoff.base not allowed with kind schedule`,
		`policy.retry.backoff.cap not allowed with kind schedule`,
		`policy.retry.backoff.multiplier not allowed with kind schedule`,
	},
	`{"retry":{"backoff":{"kind":"exponential","delays":["1s"]}}}`: {`policy.retry.backoff.delays not allowed with kind exponential`},

	`{"retry":{"jitter":{"kind":"some"}}}`:                  {`policy.retry.jitter.kind must be one of full, equal, decorrelated, percent, range, none`},
	`{"retry":{"jitter":"some"}}`:                           {`policy.retry.jitter.kind must be one of full, equal, decorrelated, percent, range, none`},
	`{"retry":{"jitter":20}}`:                               {`policy.retry.jitter must be an object`},
	`{"retry":{"jitter":{"kind":"percent","percent":0}}}`:   {`policy.retry.jitter.percent must be above 0 and at most 100`},
	`{"retry":{"jitter":{"kind":"percent","percent":101}}}`: {`policy.retry.jitter.percent must be above 0 and at most 100`},
	`{"retry":{"jitter":{"kind":"full","percent":10}}}`:     {`policy.retry.jitter.percent not allowed with kind full`},
	`{"retry":{"jitter":{"kind":"range","low":-0.1}}}`:      {`policy.retry.jitter.low low must be below high; both within 0..2`},
	`{"retry":{"jitter":{"kind":"range","high":2.1}}}`:      {`policy.retry.jitter.high low must be below high; both within 0..2`},

	`{"retry_after":{"honor":"yes"}}`:             {`policy.retry_after.honor must be true or false`},
	`{"retry_after":{"max":"500ms"}}`:             {`policy.retry_after.max must be between 1s and 7d`},
	`{"retry_after":{"late_percent":101}}`:        {`policy.retry_after.late_percent must be between 0 and 100`},
	`{"retry_after":{"late_min":"61s"}}`:          {`policy.retry_after.late_min must be between 0s and 1m`},
	`{"retry_after":{"throttle_multiplier":0.5}}`: {`policy.retry_after.throttle_multiplier must be between 1 and 10`},
	`{"retry_after":{"patience":0}}`:              {`policy.retry_after.patience must be between 1 and 1000`},

	`{"classify":{"statuses":{"600":"retry"}}}`:        {`policy.classify.statuses.600 not a status or class`},
	`{"classify":{"statuses":{"99":"retry"}}}`:         {`policy.classify.statuses.99 not a status or class`},
	`{"classify":{"statuses":{"2xx":"retry"}}}`:        {`policy.classify.statuses.2xx not a status or class`},
	`{"classify":{"statuses":{"4XX":"retry"}}}`:        {`policy.classify.statuses.4XX not a status or class`},
	`{"classify":{"statuses":{"409":"ignore"}}}`:       {`policy.classify.statuses.409 unknown action "ignore"`},
	`{"classify":{"statuses":{"409":true}}}`:           {`policy.classify.statuses.409 must be an action`},
	`{"classify":{"statuses":{"5xx":"success"}}}`:      {`policy.classify.statuses.5xx 5xx cannot be success`},
	`{"classify":{"statuses":{"503":"success"}}}`:      {`policy.classify.statuses.503 5xx cannot be success`},
	`{"classify":{"statuses":{"4xx":"success"}}}`:      {`policy.classify.statuses.4xx 4xx cannot be success`},
	`{"classify":{"statuses":{"101":"success"}}}`:      {`policy.classify.statuses.101 1xx cannot be success`},
	`{"classify":{"errors":{"flaky":"retry"}}}`:        {`policy.classify.errors.flaky unknown error reason "flaky"`},
	`{"classify":{"errors":{"server_error":"retry"}}}`: {`policy.classify.errors.server_error unknown error reason "server_error"`},
	`{"classify":{"errors":{"interrupted":"retry"}}}`:  {`policy.classify.errors.interrupted unknown error reason "interrupted"`},
	`{"classify":{"errors":{"timeout":"throttle"}}}`:   {`policy.classify.errors.timeout unknown action "throttle"`},
	`{"classify":{"limits":{"flaky":3}}}`:              {`policy.classify.limits.flaky unknown error reason "flaky"`},
	`{"classify":{"limits":{"local_error":3}}}`:        {`policy.classify.limits.local_error unknown error reason "local_error"`},
	`{"classify":{"limits":{"dns_error":0}}}`:          {`policy.classify.limits.dns_error must be between 1 and 50`},
	`{"classify":{"limits":{"dns_error":51}}}`:         {`policy.classify.limits.dns_error must be between 1 and 50`},
	`{"classify":{"redirects":{"mode":"maybe"}}}`:      {`policy.classify.redirects.mode must be fail or follow`},
	`{"classify":{"redirects":{"max_hops":6}}}`:        {`policy.classify.redirects.max_hops must be between 1 and 5`},
	`{"classify":{"on_gone":"ignore"}}`:                {`policy.classify.on_gone must be disable or dead_letter`},

	`{"timeout":{"connect":"99ms"}}`: {`policy.timeout.connect must be between 100ms and 30s`},
	`{"timeout":{"total":"121s"}}`:   {`policy.timeout.total must be between 1s and 2m`},

	`{"concurrency":0}`:                              {`policy.concurrency must be between 1 and 1000`},
	`{"concurrency":1001}`:                           {`policy.concurrency must be between 1 and 1000`},
	`{"concurrency":"many"}`:                         {`policy.concurrency must be a whole number`},
	`{"concurrency":{"mode":"free"}}`:                {`policy.concurrency.mode must be fixed or adaptive`},
	`{"concurrency":{"max":1001}}`:                   {`policy.concurrency.max must be between 1 and 1000`},
	`{"concurrency":{"mode":"fixed","initial":5}}`:   {`policy.concurrency.initial not allowed with mode fixed`},
	`{"concurrency":{"mode":"adaptive","limit":5}}`:  {`policy.concurrency.limit not allowed with mode adaptive`},
	`{"rate_limit":{"per_second":100001,"burst":1}}`: {`policy.rate_limit.per_second must be between 0 and 100000`},
	`{"rate_limit":{"burst":-1}}`:                    {`policy.rate_limit.burst must be between 0 and 100000`},

	`{"breaker":{"enabled":1}}`:                {`policy.breaker.enabled must be true or false`},
	`{"breaker":{"consecutive":1}}`:            {`policy.breaker.consecutive must be between 2 and 100`},
	`{"breaker":{"window":{"of":4}}}`:          {`policy.breaker.window.of must be between 5 and 200`},
	`{"breaker":{"window":{"failed":0}}}`:      {`policy.breaker.window.failed must be between 1 and 200`},
	`{"breaker":{"on_open":"drop"}}`:           {`policy.breaker.on_open must be hold or dead_letter`},
	`{"breaker":{"max_hold":"59s"}}`:           {`policy.breaker.max_hold must be between 1m and 30d`},
	`{"breaker":{"probe":{"fraction":0.001}}}`: {`policy.breaker.probe.fraction must be between 0.01 and 1`},
	`{"breaker":{"probe":{"min":"50ms"}}}`:     {`policy.breaker.probe.min must be between 100ms and 10m`},
	`{"breaker":{"probe":{"max":"61m"}}}`:      {`policy.breaker.probe.max must be between 100ms and 1h`},
	`{"breaker":{"probe":{"jitter":0.6}}}`:     {`policy.breaker.probe.jitter must be between 0 and 0.5`},

	`{"replay":{"per_minute":0}}`:            {`policy.replay.per_minute must be between 1 and 100000`},
	`{"replay":{"ramp":0.5}}`:                {`policy.replay.ramp must be between 1 and 10`},
	`{"replay":{"max_multiple":1001}}`:       {`policy.replay.max_multiple must be between 1 and 1000`},
	`{"replay":{"pause_error_percent":0.5}}`: {`policy.replay.pause_error_percent must be between 1 and 100`},
	`{"disable_after":"59m"}`:                {`policy.disable_after must be 0 or between 1h and 30d`},
	`{"disable_after":"721h"}`:               {`policy.disable_after must be 0 or between 1h and 30d`},
	`{"disable_after":0}`:                    {`policy.disable_after ` + badDuration},

	// All at once, each once.
	`{"retry":{"max_attempts":0,"jitter":{"kind":"x"}},"timeout":{"total":"9h"},"oops":1,"preset":"x1"}`: {
		`policy.oops unknown key "oops"; known: preset, classify, retry, retry_after, timeout, concurrency, rate_limit, breaker, replay, disable_after`,
		`policy.preset unknown preset "x1"; known: default, full-5, ladder-5, doubling-9, ladder-9, tripling-8, quick, standard-webhooks, stripe, github, shopify, twilio, sendgrid, slack, paypal, discord`,
		`policy.retry.jitter.kind must be one of full, equal, decorrelated, percent, range, none`,
		`policy.retry.max_attempts must be between 1 and 50`,
		`policy.timeout.total must be between 1s and 2m`,
	},
}

func TestLevelErrors(t *testing.T) {
	t.Parallel()
	if len(levelErrors) < 60 {
		t.Fatalf("only %d rows", len(levelErrors))
	}
	for doc, want := range levelErrors {
		t.Run(doc, func(t *testing.T) {
			t.Parallel()
			r, err := policy.Resolve(nil, levels(doc, `{}`)...)
			if diff := cmp.Diff(want, findings(t, err)); diff != "" || r != nil {
				t.Errorf("Resolve (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHugeLevels(t *testing.T) {
	t.Parallel()
	padded := func(size int) []byte {
		return []byte(`{"retry":{"max_attempts":3}` + strings.Repeat(" ", size-28) + `}`)
	}
	if _, err := policy.Resolve(nil, policy.Level{Name: policy.LevelTenant, JSON: padded(64 << 10)}); err != nil {
		t.Errorf("64 KiB: %v", err)
	}
	_, err := policy.Resolve(nil, policy.Level{Name: policy.LevelTenant, JSON: padded(64<<10 + 1)})
	if diff := cmp.Diff([]string{"policy must be at most 64 KiB"}, findings(t, err)); diff != "" {
		t.Errorf("64 KiB and a byte (-want +got):\n%s", diff)
	}
}

func TestMergedErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		docs []string
		want []string
	}{
		"cap below base":             {[]string{`{"retry":{"backoff":{"cap":"10s"}}}`}, []string{`policy.retry.backoff.cap cap must not be below base`}},
		"cap below base in levels":   {[]string{`{"retry":{"backoff":{"cap":"1m"}}}`, `{"retry":{"backoff":{"base":"2m"}}}`}, []string{`policy.retry.backoff.cap cap must not be below base`}},
		"floor above cap":            {[]string{`{"retry":{"min_delay":"2m","backoff":{"base":"1s","cap":"1m"}}}`}, []string{`policy.retry.min_delay must not exceed backoff.cap`}},
		"schedule without delays":    {[]string{`{"retry":{"backoff":{"kind":"schedule"}}}`}, []string{`policy.retry.backoff.delays must hold 1 to 49 delays`}},
		"delays taken away":          {[]string{`{"retry":{"backoff":{"kind":"schedule","delays":["1s"]}}}`, `{"retry":{"backoff":{"delays":null}}}`}, []string{`policy.retry.backoff.delays must hold 1 to 49 delays`}},
		"delays without a kind":      {[]string{`{"retry":{"backoff":{"delays":["1s"]}}}`}, []string{`policy.retry.backoff.delays not allowed with kind exponential`}},
		"base on a schedule":         {[]string{`{"preset":"stripe"}`, `{"retry":{"backoff":{"base":"1s"}}}`}, []string{`policy.retry.backoff.base not allowed with kind schedule`}},
		"percent on full":            {[]string{`{"retry":{"jitter":{"percent":5}}}`}, []string{`policy.retry.jitter.percent not allowed with kind full`}},
		"limit on adaptive":          {[]string{`{"concurrency":{"limit":5}}`}, []string{`policy.concurrency.limit not allowed with mode adaptive`}},
		"range upside down":          {[]string{`{"retry":{"jitter":{"kind":"range","low":1.6}}}`}, []string{`policy.retry.jitter.low low must be below high; both within 0..2`}},
		"range of one point":         {[]string{`{"retry":{"jitter":{"kind":"range","low":1,"high":1}}}`}, []string{`policy.retry.jitter.low low must be below high; both within 0..2`}},
		"decorrelated schedule":      {[]string{`{"preset":"stripe"}`, `{"retry":{"jitter":{"kind":"decorrelated"}}}`}, []string{`policy.retry.jitter.kind decorrelated needs kind exponential`}},
		"schedule over decorrelated": {[]string{`{"preset":"quick"}`, `{"retry":{"backoff":{"kind":"schedule","delays":["1s"]}}}`}, []string{`policy.retry.jitter.kind decorrelated needs kind exponential`}},
		"connect above total":        {[]string{`{"timeout":{"total":"5s"}}`}, []string{`policy.timeout.connect connect must not exceed total`}},
		"initial above max":          {[]string{`{"concurrency":{"max":5}}`}, []string{`policy.concurrency.initial initial must not exceed max`}},
		"rate without burst":         {[]string{`{"rate_limit":{"per_second":5}}`}, []string{`policy.rate_limit.burst burst must be at least 1`}},
		"failed above of":            {[]string{`{"breaker":{"window":{"of":10}}}`}, []string{`policy.breaker.window.failed failed must not exceed of`}},
		"probe max below min":        {[]string{`{"breaker":{"probe":{"min":"2m"}}}`}, []string{`policy.breaker.probe.max max must not be below min`}},
		"both levels wrong":          {[]string{`{"retry":{"max_attempts":0}}`, `{"retry":{"max_attempts":0,"min_delay":"2h"}}`}, []string{`policy.retry.max_attempts must be between 1 and 50`, `policy.retry.min_delay must be between 10ms and 1h`}},
		"what follows is not repeated": {
			[]string{`{"breaker":{"probe":{"min":"9m","max":"2h"}}}`}, []string{`policy.breaker.probe.max must be between 100ms and 1h`},
		},
		"level and result at once": {
			[]string{`{"retry":{"max_attempts":99}}`, `{"timeout":{"total":"5s"}}`},
			[]string{`policy.retry.max_attempts must be between 1 and 50`, `policy.timeout.connect connect must not exceed total`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := policy.Resolve(nil, levels(tc.docs...)...)
			if diff := cmp.Diff(tc.want, findings(t, err)); diff != "" {
				t.Errorf("Resolve (-want +got):\n%s", diff)
			}
		})
	}
}
