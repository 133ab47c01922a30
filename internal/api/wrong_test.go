package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestWrongRequestsAreRefusedWithoutATrace sends what must be refused: each with its status, code and
// the field it names, none with a trace in the store.
func TestWrongRequestsAreRefusedWithoutATrace(t *testing.T) { //nolint:tparallel // the store is looked at after each
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, map[string]any{"uid": "main", "headers": map[string]string{"X-Token": "s3cr3t-header"}})
	w.event(w.a, "order.paid")
	w.event(w.a, "order.paid")
	dead := w.deliveries(w.a)[0]
	w.settle(dead, hook.Dead, hook.DeadExhausted)
	const get, post, patch, del = http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete
	T := "/v1/tenants/acme"
	E := T + "/endpoints"
	D := T + "/deliveries/" + hook.DeliveryPrefix.Format(dead.ID)
	R := T + "/replays"
	ended := R + "/" + w.replay(w.a, `{"endpoint":"main"}`)
	w.must(200, http.MethodPost, ended+"/cancel", w.a.write, nil)
	w.endpoint(w.a, map[string]any{"uid": "off"})
	w.must(200, http.MethodPost, E+"/off/disable", w.a.write, nil)
	A := T + "/alert-channels"
	mail := A + "/" + w.channel(A, w.a.write, mailChannel)
	fires := "/v1/alerts/" + shownAlert(w.alert("retry_storm", hook.AlertSubject{Tenant: w.a.tenant}))
	wk := w.a.write
	big := strings.Repeat("x", 70<<10)

	type wrong struct {
		method, path, key string
		body              any
		headers           []string
		status            int
		code, field       string
	}
	url := `"url":"https://example.com/a"`
	cases := map[string]wrong{
		// keys
		"no key":              {get, "/v1/me", "", nil, nil, 401, "unauthenticated", ""},
		"malformed key":       {get, "/v1/me", "short", nil, nil, 401, "unauthenticated", ""},
		"unknown key":         {get, "/v1/me", "bw_" + strings.Repeat("a", 51), nil, nil, 401, "unauthenticated", ""},
		"basic auth":          {get, "/v1/me", "", nil, []string{"Authorization", "Basic YTpi"}, 401, "unauthenticated", ""},
		"cookie":              {get, "/v1/me", "", nil, []string{"Cookie", "key=" + w.admin}, 401, "unauthenticated", ""},
		"outside the scope":   {post, T + "/events", w.a.read, `{}`, nil, 403, "forbidden_scope", ""},
		"admin route":         {get, "/v1/keys", wk, nil, nil, 403, "forbidden_scope", ""},
		"read key writes":     {post, E, w.adminRead, `{}`, nil, 403, "forbidden_scope", ""},
		"read key's secret":   {get, E + "/main/secret", w.adminRead, nil, nil, 403, "forbidden_scope", ""},
		"foreign tenant":      {get, "/v1/tenants/bolt", wk, nil, nil, 404, "not_found", ""},
		"unknown tenant":      {get, "/v1/tenants/nobody", w.admin, nil, nil, 404, "not_found", ""},
		"malformed tenant id": {get, "/v1/tenants/ten_zz", w.admin, nil, nil, 404, "not_found", ""},
		"tenant with slash":   {get, "/v1/tenants/a%2Fb", w.admin, nil, nil, 404, "not_found", ""},
		// paths
		"unknown path":   {get, "/v1/nothing", w.admin, nil, nil, 404, "not_found", ""},
		"double slash":   {get, "/v1//tenants", w.admin, nil, nil, 404, "not_found", ""},
		"dots in path":   {get, "/v1/keys/../tenants", w.admin, nil, nil, 404, "not_found", ""},
		"wrong method":   {http.MethodPut, "/v1/tenants", w.admin, nil, nil, 405, "method_not_allowed", ""},
		"post to a read": {post, T + "/deliveries", wk, nil, nil, 405, "method_not_allowed", ""},
		// queries
		"unknown parameter":     {get, T + "/deliveries?colour=red", wk, nil, nil, 422, "validation_failed", "query.colour"},
		"parameter on a post":   {post, E + "?dry_run=1", wk, `{` + url + `}`, nil, 422, "validation_failed", "query.dry_run"},
		"huge limit":            {get, E + "?limit=1000000000", wk, nil, nil, 400, "invalid_parameter", "query.limit"},
		"zero limit":            {get, E + "?limit=0", wk, nil, nil, 400, "invalid_parameter", "query.limit"},
		"negative limit":        {get, E + "?limit=-1", wk, nil, nil, 400, "invalid_parameter", "query.limit"},
		"limit in words":        {get, E + "?limit=ten", wk, nil, nil, 400, "invalid_parameter", "query.limit"},
		"limit twice":           {get, E + "?limit=1&limit=2", wk, nil, nil, 400, "invalid_parameter", "query.limit"},
		"unknown order":         {get, E + "?order=random", wk, nil, nil, 400, "invalid_parameter", "query.order"},
		"cursor of nothing":     {get, E + "?cursor=AAAA", wk, nil, nil, 400, "invalid_cursor", ""},
		"cursor not base64":     {get, E + "?cursor=%21%21", wk, nil, nil, 400, "invalid_cursor", ""},
		"malformed query":       {get, E + "?limit=%zz", wk, nil, nil, 400, "invalid_parameter", "query"},
		"NUL in a filter":       {get, "/v1/tenants?q=a%00b", w.admin, nil, nil, 400, "invalid_parameter", "query.q"},
		"invalid UTF-8":         {get, "/v1/tenants?q=%ff", w.admin, nil, nil, 400, "invalid_parameter", "query.q"},
		"unknown status":        {get, T + "/deliveries?status=lost", wk, nil, nil, 400, "invalid_parameter", "query.status"},
		"view with a status":    {get, T + "/deliveries?status=held&status=dead", wk, nil, nil, 400, "invalid_parameter", "query.status"},
		"unknown wait":          {get, T + "/deliveries?waiting_for=pace&waiting_for=luck", wk, nil, nil, 400, "invalid_parameter", "query.waiting_for"},
		"wait of dead ones":     {get, T + "/dead-letters?waiting_for=pace", wk, nil, nil, 422, "validation_failed", "query.waiting_for"},
		"unknown reason":        {get, T + "/dead-letters?reason=bored", wk, nil, nil, 400, "invalid_parameter", "query.reason"},
		"status of dead ones":   {get, T + "/dead-letters?status=dead", wk, nil, nil, 422, "validation_failed", "query.status"},
		"bad since":             {get, T + "/events?since=yesterday", wk, nil, nil, 400, "invalid_parameter", "query.since"},
		"bare number as since":  {get, T + "/events?since=24", wk, nil, nil, 400, "invalid_parameter", "query.since"},
		"bad type pattern":      {get, T + "/events?type=*.paid", wk, nil, nil, 400, "invalid_parameter", "query.type"},
		"bad event filter":      {get, T + "/deliveries?event=1", wk, nil, nil, 400, "invalid_parameter", "query.event"},
		"unknown uid in filter": {get, T + "/deliveries?endpoint=nope", wk, nil, nil, 400, "invalid_parameter", "query.endpoint"},
		"sql in a filter":       {get, T + "/deliveries?endpoint=ep_'OR'1'%3D'1", wk, nil, nil, 400, "invalid_parameter", "query.endpoint"},
		// bodies
		"no body":              {post, E, wk, nil, nil, 400, "invalid_json", ""},
		"broken JSON":          {post, E, wk, `{"url":`, nil, 400, "invalid_json", ""},
		"text after JSON":      {post, E, wk, `{} {}`, nil, 400, "invalid_json", ""},
		"not an object":        {post, E, wk, `[]`, nil, 422, "validation_failed", "body"},
		"null body":            {post, E, wk, `null`, nil, 422, "validation_failed", "body"},
		"compressed":           {post, E, wk, `{}`, []string{"Content-Encoding", "gzip"}, 415, "unsupported_media_type", ""},
		"xml":                  {post, E, wk, `<a/>`, []string{"Content-Type", "text/xml"}, 415, "unsupported_media_type", ""},
		"control body too big": {post, E, wk, `{"description":"` + strings.Repeat("x", 300<<10) + `"}`, nil, 413, "payload_too_large", ""},
		"other tenant in body": {post, E, wk, `{` + url + `,"tenant_id":"` + w.b.id + `"}`, nil, 422, "validation_failed", "tenant_id"},
		"wrong case of a name": {post, E, wk, `{"URL":"https://example.com"}`, nil, 422, "validation_failed", "URL"},
		// endpoints
		"no url":                   {post, E, wk, `{}`, nil, 422, "validation_failed", "url"},
		"url of wrong type":        {post, E, wk, `{"url":5}`, nil, 422, "validation_failed", "url"},
		"blocked url":              {post, E, wk, `{"url":"https://169.254.169.254/"}`, nil, 422, "url_blocked", "url"},
		"bad pattern":              {post, E, wk, `{` + url + `,"types":["ok","a..b"]}`, nil, 422, "type_invalid", "types[1]"},
		"no types":                 {post, E, wk, `{` + url + `,"types":[]}`, nil, 422, "validation_failed", "types"},
		"change to no types":       {patch, E + "/main", wk, `{"types":[]}`, nil, 422, "validation_failed", "types"},
		"uid like an id":           {post, E, wk, `{` + url + `,"uid":"ep_x"}`, nil, 422, "validation_failed", "uid"},
		"uid with space":           {post, E, wk, `{` + url + `,"uid":"a b"}`, nil, 422, "validation_failed", "uid"},
		"uid taken":                {post, E, wk, `{` + url + `,"uid":"main"}`, nil, 409, "uid_taken", ""},
		"forbidden header":         {post, E, wk, `{` + url + `,"headers":{"Webhook-Id":"x"}}`, nil, 422, "header_forbidden", "headers.Webhook-Id"},
		"header injection":         {post, E, wk, `{` + url + `,"headers":{"X-A":"b\r\nHost: c"}}`, nil, 422, "validation_failed", "headers.X-A"},
		"header twice":             {patch, E + "/main", wk, `{"headers":{"X-B":"***"}}`, nil, 422, "validation_failed", "headers.X-B"},
		"unknown scheme":           {post, E, wk, `{` + url + `,"signatures":[{"scheme":"md5"}]}`, nil, 422, "validation_failed", "signatures[0].scheme"},
		"stripe without header":    {post, E, wk, `{` + url + `,"signatures":[{"scheme":"stripe"}]}`, nil, 422, "validation_failed", "signatures[0]"},
		"unknown body mode":        {post, E, wk, `{` + url + `,"body":"xml"}`, nil, 422, "validation_failed", "body"},
		"unknown trace context":    {post, E, wk, `{` + url + `,"trace_context":"on"}`, nil, 422, "validation_failed", "trace_context"},
		"trace header twice":       {post, E, wk, `{` + url + `,"trace_context":"forward","headers":{"TraceParent":"x"}}`, nil, 422, "validation_failed", "headers.TraceParent"},
		"bad secret":               {post, E, wk, `{` + url + `,"secret":"whsec_short"}`, nil, 422, "validation_failed", "secret"},
		"secret of another kind":   {post, E, wk, `{` + url + `,"secret":"whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}`, nil, 422, "validation_failed", "secret"},
		"bad policy":               {post, E, wk, `{` + url + `,"policy":{"retry":{"max_attempts":0}}}`, nil, 422, "invalid_policy", "policy.retry.max_attempts"},
		"unknown policy key":       {post, E, wk, `{` + url + `,"policy":{"retries":3}}`, nil, 422, "invalid_policy", "policy.retries"},
		"policy not an object":     {post, E, wk, `{` + url + `,"policy":[1]}`, nil, 422, "invalid_policy", "policy"},
		"two things wrong":         {post, E, wk, `{"url":"http://x","types":["a b"]}`, nil, 422, "validation_failed", "url"},
		"control char in text":     {post, E, wk, `{` + url + `,"description":"a\u0000b"}`, nil, 422, "validation_failed", "description"},
		"create without a tenant":  {post, "/v1/tenants/-/endpoints", w.admin, `{` + url + `}`, nil, 400, "tenant_required", ""},
		"uid without a tenant":     {get, "/v1/tenants/-/endpoints/main", w.admin, nil, nil, 400, "tenant_required", ""},
		"unknown endpoint":         {get, E + "/ep_0000000000000", wk, nil, nil, 404, "not_found", ""},
		"malformed endpoint id":    {get, E + "/ep_!", wk, nil, nil, 404, "not_found", ""},
		"patch status":             {patch, E + "/main", wk, `{"status":"active"}`, nil, 422, "validation_failed", "status"},
		"patch url to null":        {patch, E + "/main", wk, `{"url":null}`, nil, 422, "validation_failed", "url"},
		"patch old version":        {patch, E + "/main", wk, `{"description":"x"}`, []string{"If-Match", `"99"`}, 412, "version_mismatch", ""},
		"malformed If-Match":       {patch, E + "/main", wk, `{"description":"x"}`, []string{"If-Match", `3`}, 400, "invalid_parameter", "header.If-Match"},
		"probe of a closed lane":   {post, E + "/main/probe", wk, nil, nil, 409, "state_conflict", ""},
		"note too long":            {post, E + "/main/pause", wk, `{"note":"` + strings.Repeat("x", 501) + `"}`, nil, 422, "validation_failed", "note"},
		"unknown field in action":  {post, E + "/main/pause", wk, `{"why":"x"}`, nil, 422, "validation_failed", "why"},
		"overlap too long":         {post, E + "/main/rotate-secret", wk, `{"overlap":"8d"}`, nil, 422, "validation_failed", "overlap"},
		"overlap as a number":      {post, E + "/main/rotate-secret", wk, `{"overlap":24}`, nil, 422, "validation_failed", "overlap"},
		"rotate to another kind":   {post, E + "/main/rotate-secret", wk, `{"scheme":"standard_ed25519"}`, nil, 422, "validation_failed", "scheme"},
		"preview of a bad policy":  {post, "/v1/policies/preview", wk, `{"policy":{"timeout":{"total":"1h"}}}`, nil, 422, "invalid_policy", "policy.timeout.total"},
		"preview without a policy": {post, "/v1/policies/preview", wk, `{}`, nil, 422, "validation_failed", "policy"},
		"outage that is none":      {post, "/v1/policies/preview", wk, `{"policy":{},"simulate":{"outage":"soon"}}`, nil, 422, "validation_failed", "simulate.outage"},
		"too many events":          {post, "/v1/policies/preview", wk, `{"policy":{},"simulate":{"rate":5000}}`, nil, 422, "validation_failed", "simulate.rate"},
		"unknown destination":      {post, "/v1/policies/preview", wk, `{"policy":{},"simulate":{"destination":"moon"}}`, nil, 422, "validation_failed", "simulate.destination"},
		"seed below zero":          {post, "/v1/policies/preview", wk, `{"policy":{},"simulate":{"seed":-1}}`, nil, 422, "validation_failed", "simulate.seed"},
		"bad policy of one":        {post, E + "/main/policy/preview", wk, `{"policy":{"timeout":{"total":"1h"}}}`, nil, 422, "invalid_policy", "policy.timeout.total"},
		"unknown preset":           {get, "/v1/presets/none", wk, nil, nil, 404, "not_found", ""},
		// tenants and keys
		"tenant without name":     {post, "/v1/tenants", w.admin, `{}`, nil, 422, "validation_failed", "name"},
		"tenant uid taken":        {post, "/v1/tenants", w.admin, `{"name":"x","uid":"acme"}`, nil, 409, "uid_taken", ""},
		"tenant uid like an id":   {post, "/v1/tenants", w.admin, `{"name":"x","uid":"ten_x"}`, nil, 422, "validation_failed", "uid"},
		"tenant uid is a dash":    {post, "/v1/tenants", w.admin, `{"name":"x","uid":"-"}`, nil, 422, "validation_failed", "uid"},
		"negative limit of one":   {post, "/v1/tenants", w.admin, `{"name":"x","limits":{"max_pending":-1}}`, nil, 422, "validation_failed", "limits.max_pending"},
		"number too large":        {post, "/v1/tenants", w.admin, `{"name":"x","limits":{"max_pending":1e400}}`, nil, 422, "validation_failed", "body"},
		"patch name to null":      {patch, T, w.admin, `{"name":null}`, nil, 422, "validation_failed", "name"},
		"patch every tenant":      {patch, "/v1/tenants/-", w.admin, `{"name":"x"}`, nil, 400, "tenant_required", ""},
		"rename the default":      {patch, "/v1/tenants/default", w.admin, `{"uid":"other"}`, nil, 422, "validation_failed", "uid"},
		"delete the default":      {del, "/v1/tenants/default", w.admin, nil, nil, 409, "state_conflict", ""},
		"force on the default":    {del, "/v1/tenants/default?force=true", w.admin, nil, nil, 409, "state_conflict", ""},
		"delete a full tenant":    {del, T, w.admin, nil, nil, 409, "tenant_not_empty", ""},
		"key without a scope":     {post, "/v1/keys", w.admin, `{"name":"x"}`, nil, 422, "validation_failed", "scope"},
		"key of unknown scope":    {post, "/v1/keys", w.admin, `{"name":"x","scope":"root"}`, nil, 422, "validation_failed", "scope"},
		"tenant key of nobody":    {post, "/v1/keys", w.admin, `{"name":"x","scope":"tenant:read"}`, nil, 422, "validation_failed", "tenant"},
		"key of unknown tenant":   {post, "/v1/keys", w.admin, `{"name":"x","scope":"tenant:read","tenant":"nobody"}`, nil, 422, "validation_failed", "tenant"},
		"admin key with a tenant": {post, "/v1/keys", w.admin, `{"name":"x","scope":"admin","tenant":"acme"}`, nil, 422, "validation_failed", "tenant"},
		"key that has expired":    {post, "/v1/keys", w.admin, `{"name":"x","scope":"admin","expires_at":"2001-01-01T00:00:00Z"}`, nil, 422, "validation_failed", "expires_at"},
		"revoke an unknown key":   {del, "/v1/keys/key_0000000000000", w.admin, nil, nil, 404, "not_found", ""},
		"revoke by prefix":        {del, "/v1/keys/bw_x", w.admin, nil, nil, 404, "not_found", ""},
		// events
		"event without type":       {post, T + "/events", wk, `{"payload":1}`, nil, 422, "type_invalid", "type"},
		"event of bad type":        {post, T + "/events", wk, `{"type":"a b","payload":1}`, nil, 422, "type_invalid", "type"},
		"event type of bad type":   {post, T + "/events", wk, `{"type":1,"payload":1}`, nil, 422, "validation_failed", "type"},
		"event without payload":    {post, T + "/events", wk, `{"type":"a"}`, nil, 422, "validation_failed", "payload"},
		"event with attempts":      {post, T + "/events", wk, `{"type":"a","payload":1,"attempts":0}`, nil, 422, "validation_failed", "attempts"},
		"event field twice":        {post, T + "/events", wk, `{"type":"a","payload":1,"type":"b"}`, nil, 422, "validation_failed", "type"},
		"event is an array":        {post, T + "/events", wk, `[1]`, nil, 422, "validation_failed", "body"},
		"event is broken":          {post, T + "/events", wk, `{"type":"a","payload":{]}`, nil, 400, "invalid_json", ""},
		"event is empty":           {post, T + "/events", wk, ``, nil, 400, "invalid_json", ""},
		"event nested too deeply":  {post, T + "/events", wk, `{"type":"a","payload":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, nil, 400, "invalid_json", ""},
		"event too large":          {post, T + "/events", wk, `{"type":"a","payload":"` + big + `"}`, nil, 413, "payload_too_large", ""},
		"event body too large":     {post, T + "/events", wk, `{"type":"a","payload":"` + strings.Repeat("x", 300<<10) + `"}`, nil, 413, "payload_too_large", ""},
		"event compressed":         {post, T + "/events", wk, `{}`, []string{"Content-Encoding", "br"}, 415, "unsupported_media_type", ""},
		"event as text":            {post, T + "/events", wk, `{}`, []string{"Content-Type", "text/plain"}, 415, "unsupported_media_type", ""},
		"both payloads":            {post, T + "/events", wk, `{"type":"a","payload":1,"payload_base64":"AA=="}`, nil, 422, "validation_failed", "payload_base64"},
		"bad base64":               {post, T + "/events", wk, `{"type":"a","payload_base64":"A","content_type":"text/plain"}`, nil, 422, "validation_failed", "payload_base64"},
		"base64 without type":      {post, T + "/events", wk, `{"type":"a","payload_base64":"AA=="}`, nil, 422, "validation_failed", "content_type"},
		"content type of JSON":     {post, T + "/events", wk, `{"type":"a","payload":1,"content_type":"text/plain"}`, nil, 422, "validation_failed", "content_type"},
		"content type injection":   {post, T + "/events", wk, `{"type":"a","payload_base64":"AA==","content_type":"text/plain\r\nX: y"}`, nil, 422, "validation_failed", "content_type"},
		"too far ahead":            {post, T + "/events", wk, `{"type":"a","payload":1,"deliver_at":"2026-04-02T10:30:15Z"}`, nil, 422, "validation_failed", "deliver_at"},
		"malformed deliver_at":     {post, T + "/events", wk, `{"type":"a","payload":1,"deliver_at":"tomorrow"}`, nil, 422, "validation_failed", "deliver_at"},
		"delay too long":           {post, T + "/events", wk, `{"type":"a","payload":1,"delay":"31d"}`, nil, 422, "validation_failed", "delay"},
		"negative delay":           {post, T + "/events", wk, `{"type":"a","payload":1,"delay":"-1s"}`, nil, 422, "validation_failed", "delay"},
		"delay as a number":        {post, T + "/events", wk, `{"type":"a","payload":1,"delay":15}`, nil, 422, "validation_failed", "delay"},
		"delay and deliver_at":     {post, T + "/events", wk, `{"type":"a","payload":1,"delay":"1s","deliver_at":"2026-03-02T11:00:00Z"}`, nil, 422, "validation_failed", "delay"},
		"no targets":               {post, T + "/events", wk, `{"type":"a","payload":1,"endpoints":[]}`, nil, 422, "validation_failed", "endpoints"},
		"targets not a list":       {post, T + "/events", wk, `{"type":"a","payload":1,"endpoints":"main"}`, nil, 422, "validation_failed", "endpoints"},
		"target of wrong type":     {post, T + "/events", wk, `{"type":"a","payload":1,"endpoints":["main",7]}`, nil, 422, "validation_failed", "endpoints[1]"},
		"unknown target uid":       {post, T + "/events", wk, `{"type":"a","payload":1,"endpoints":["main","nope"]}`, nil, 422, "validation_failed", "endpoints[1]"},
		"unknown target id":        {post, T + "/events", wk, `{"type":"a","payload":1,"endpoints":["ep_0000000000000"]}`, nil, 422, "validation_failed", "endpoints"},
		"key in a single event":    {post, T + "/events", wk, `{"type":"a","payload":1,"idempotency_key":"x"}`, nil, 422, "validation_failed", "idempotency_key"},
		"key with space":           {post, T + "/events", wk, `{"type":"a","payload":1}`, []string{"Idempotency-Key", "a b"}, 400, "invalid_parameter", "header.Idempotency-Key"},
		"key too long":             {post, T + "/events", wk, `{"type":"a","payload":1}`, []string{"Idempotency-Key", strings.Repeat("k", 256)}, 400, "invalid_parameter", "header.Idempotency-Key"},
		"two keys":                 {post, T + "/events", wk, `{"type":"a","payload":1}`, []string{"Idempotency-Key", "a", "Idempotency-Key", "b"}, 400, "invalid_parameter", "header.Idempotency-Key"},
		"event without a tenant":   {post, "/v1/tenants/-/events", w.admin, `{"type":"a","payload":1}`, nil, 400, "tenant_required", ""},
		"empty batch":              {post, T + "/events/batch", wk, `{"events":[]}`, nil, 422, "validation_failed", "events"},
		"batch of nothing":         {post, T + "/events/batch", wk, `{}`, nil, 422, "validation_failed", "events"},
		"batch too long":           {post, T + "/events/batch", wk, `{"events":[` + strings.Repeat("1,", 1000) + `1]}`, nil, 422, "validation_failed", "events"},
		"unknown field in batch":   {post, T + "/events/batch", wk, `{"events":[{"type":"a","payload":1}],"mode":"x"}`, nil, 422, "validation_failed", "mode"},
		"batch with a request key": {post, T + "/events/batch", wk, `{"events":[{"type":"a","payload":1}]}`, []string{"Idempotency-Key", "a"}, 400, "invalid_parameter", "header.Idempotency-Key"},
		"batch body too large":     {post, T + "/events/batch", wk, `{"events":["` + strings.Repeat("x", 300<<10) + `"]}`, nil, 413, "payload_too_large", ""},
		"test of bad type":         {post, E + "/main/test", wk, `{"type":"a b"}`, nil, 422, "type_invalid", "type"},
		"unknown event":            {get, T + "/events/evt_0000000000000", wk, nil, nil, 404, "not_found", ""},
		"payload of no event":      {get, T + "/events/evt_0000000000000/payload", wk, nil, nil, 404, "not_found", ""},
		"unknown delivery":         {get, T + "/deliveries/dlv_0000000000000", wk, nil, nil, 404, "not_found", ""},
		"event id as delivery id":  {get, T + "/deliveries/evt_0000000000000", wk, nil, nil, 404, "not_found", ""},
		"cancel a dead delivery":   {post, D + "/cancel", wk, nil, nil, 409, "state_conflict", ""},
		// replays
		"replay of everything":        {post, R, wk, `{}`, nil, 422, "filter_empty", "all"},
		"replay with only a pace":     {post, R, wk, `{"per_minute":5,"dry_run":true}`, nil, 422, "filter_empty", "all"},
		"replay without a body":       {post, R, wk, nil, nil, 400, "invalid_json", ""},
		"discard without a tenant":    {post, "/v1/tenants/-/dead-letters/discard", w.admin, `{"all":true,"expect_count":0}`, nil, 400, "tenant_required", ""},
		"discard without a filter":    {post, T + "/dead-letters/discard", wk, `{"expect_count":0}`, nil, 422, "filter_empty", "all"},
		"discard without a count":     {post, T + "/dead-letters/discard", wk, `{"all":true}`, nil, 422, "validation_failed", "expect_count"},
		"discard of less than none":   {post, T + "/dead-letters/discard", wk, `{"all":true,"expect_count":-1}`, nil, 422, "validation_failed", "expect_count"},
		"discard of too many":         {post, T + "/dead-letters/discard", wk, `{"all":true,"expect_count":1000001}`, nil, 422, "validation_failed", "expect_count"},
		"discard by status":           {post, T + "/dead-letters/discard", wk, `{"all":true,"statuses":["delivered"],"expect_count":0}`, nil, 422, "validation_failed", "statuses"},
		"discard of a bad reason":     {post, T + "/dead-letters/discard", wk, `{"reasons":["bored"],"expect_count":0}`, nil, 422, "validation_failed", "reasons[0]"},
		"discard of an unknown uid":   {post, T + "/dead-letters/discard", wk, `{"endpoint":"nope","expect_count":0}`, nil, 422, "validation_failed", "endpoint"},
		"discard of a bad id":         {post, T + "/dead-letters/discard", wk, `{"delivery_ids":["evt_1"],"expect_count":0}`, nil, 422, "validation_failed", "delivery_ids[0]"},
		"audit of a bad action":       {get, T + "/audit?action=*.pause", wk, nil, nil, 400, "invalid_parameter", "query.action"},
		"audit of a long subject":     {get, T + "/audit?subject=" + strings.Repeat("x", 129), wk, nil, nil, 400, "invalid_parameter", "query.subject"},
		"audit since yesterday":       {get, T + "/audit?since=yesterday", wk, nil, nil, 400, "invalid_parameter", "query.since"},
		"audit of all by a tenant":    {get, "/v1/audit", wk, nil, nil, 403, "forbidden_scope", ""},
		"nodes page by page":          {get, "/v1/nodes?limit=5", w.admin, nil, nil, 422, "validation_failed", "query.limit"},
		"link without a tenant":       {post, "/v1/tenants/-/portal-links", w.admin, `{}`, nil, 400, "tenant_required", ""},
		"link for too short":          {post, T + "/portal-links", wk, `{"ttl":"4m59s"}`, nil, 422, "validation_failed", "ttl"},
		"link for too long":           {post, T + "/portal-links", wk, `{"ttl":"25h"}`, nil, 422, "validation_failed", "ttl"},
		"link for a number":           {post, T + "/portal-links", wk, `{"ttl":"60"}`, nil, 422, "validation_failed", "ttl"},
		"link for an operator":        {post, T + "/portal-links", wk, `{"scope":"admin"}`, nil, 422, "validation_failed", "scope"},
		"link for a sender":           {post, T + "/portal-links", wk, `{"scope":"tenant:send"}`, nil, 422, "validation_failed", "scope"},
		"link to elsewhere":           {post, T + "/portal-links", wk, `{"url":"https://example.com"}`, nil, 422, "validation_failed", "url"},
		"config for a tenant":         {get, "/v1/config", wk, nil, nil, 403, "forbidden_scope", ""},
		"curl of nothing":             {get, T + "/deliveries/dlv_0000000000000/curl", wk, nil, nil, 404, "not_found", ""},
		"curl of no delivery":         {get, T + "/deliveries/evt_1/curl", wk, nil, nil, 404, "not_found", ""},
		"curl signed perhaps":         {get, T + "/deliveries/dlv_0000000000000/curl?sign=maybe", wk, nil, nil, 400, "invalid_parameter", "query.sign"},
		"curl signed for a reader":    {get, T + "/deliveries/dlv_0000000000000/curl?sign=true", w.a.read, nil, nil, 403, "forbidden_scope", ""},
		"curl signed for an overseer": {get, T + "/deliveries/dlv_0000000000000/curl?sign=true", w.adminRead, nil, nil, 403, "forbidden_scope", ""},
		"groups by status":            {get, T + "/dead-letters/groups?status=dead", wk, nil, nil, 422, "validation_failed", "query.status"},
		"groups page by page":         {get, T + "/dead-letters/groups?limit=5", wk, nil, nil, 422, "validation_failed", "query.limit"},
		"groups of a bad reason":      {get, T + "/dead-letters/groups?reason=bored", wk, nil, nil, 400, "invalid_parameter", "query.reason"},
		"replay without a tenant":     {post, "/v1/tenants/-/replays", w.admin, `{"all":true}`, nil, 400, "tenant_required", ""},
		"replay to nowhere":           {post, R, wk, `{"endpoint":"nope"}`, nil, 422, "validation_failed", "endpoint"},
		"replay to another tenant":    {post, R, wk, `{"endpoint":"` + w.endpoint(w.b, nil) + `"}`, nil, 422, "validation_failed", "endpoint"},
		"replay to a disabled one":    {post, R, wk, `{"endpoint":"off"}`, nil, 409, "endpoint_disabled", ""},
		"dry run to a disabled one":   {post, R, wk, `{"endpoint":"off","dry_run":true}`, nil, 409, "endpoint_disabled", ""},
		"replay of pending ones":      {post, R, wk, `{"statuses":["dead","pending"]}`, nil, 422, "validation_failed", "statuses"},
		"replay of an unknown status": {post, R, wk, `{"statuses":["held"]}`, nil, 422, "validation_failed", "statuses[0]"},
		"replay of an unknown reason": {post, R, wk, `{"reasons":["expired","bored"]}`, nil, 422, "validation_failed", "reasons[1]"},
		"replay of a bad type":        {post, R, wk, `{"types":["a b"]}`, nil, 422, "type_invalid", "types[0]"},
		"replay since nonsense":       {post, R, wk, `{"since":"yesterday"}`, nil, 422, "validation_failed", "since"},
		"replay of a bad id":          {post, R, wk, `{"delivery_ids":["evt_0000000000000"]}`, nil, 422, "validation_failed", "delivery_ids[0]"},
		"replay of too many ids":      {post, R, wk, `{"delivery_ids":["x"` + strings.Repeat(`,"x"`, 1000) + `]}`, nil, 422, "validation_failed", "delivery_ids"},
		"replay at no pace":           {post, R, wk, `{"all":true,"per_minute":0}`, nil, 422, "validation_failed", "per_minute"},
		"replay growing too much":     {post, R, wk, `{"all":true,"max_multiple":1001}`, nil, 422, "validation_failed", "max_multiple"},
		"missing ones of nobody":      {post, R, wk, `{"since":"1h","include_missing":true}`, nil, 422, "validation_failed", "endpoint"},
		"missing ones of all time":    {post, R, wk, `{"endpoint":"off","include_missing":true}`, nil, 422, "validation_failed", "since"},
		"missing ones by id":          {post, R, wk, `{"endpoint":"off","since":"1h","delivery_ids":["dlv_0000000000000"],"include_missing":true}`, nil, 422, "validation_failed", "delivery_ids"},
		"missing ones, disabled":      {post, R, wk, `{"endpoint":"off","since":"1h","include_missing":true}`, nil, 409, "endpoint_disabled", ""},
		"missing ones of a stranger":  {post, R, wk, `{"endpoint":"` + w.endpoint(w.b, nil) + `","since":"1h","include_missing":true}`, nil, 422, "validation_failed", "endpoint"},
		"replays of unknown status":   {get, R + "?status=stuck", wk, nil, nil, 400, "invalid_parameter", "query.status"},
		"unknown replay":              {get, R + "/rpl_0000000000000", wk, nil, nil, 404, "not_found", ""},
		"delivery id as replay id":    {get, R + "/dlv_0000000000000", wk, nil, nil, 404, "not_found", ""},
		"pause of an ended replay":    {post, ended + "/pause", wk, nil, nil, 409, "state_conflict", ""},
		"resume of an ended replay":   {post, ended + "/resume", wk, nil, nil, 409, "state_conflict", ""},
		"cancel of an ended replay":   {post, ended + "/cancel", wk, nil, nil, 409, "state_conflict", ""},
		"change of an ended replay":   {patch, ended, wk, `{"per_minute":7}`, nil, 409, "state_conflict", ""},
		"change to no pace":           {patch, ended, wk, `{"per_minute":null}`, nil, 422, "validation_failed", "per_minute"},
		"change of the filter":        {patch, ended, wk, `{"types":["a"]}`, nil, 422, "validation_failed", "types"},
		"change of an old version":    {patch, ended, wk, `{"per_minute":7}`, []string{"If-Match", `"99"`}, 412, "version_mismatch", ""},
		"note on a pause too long":    {post, ended + "/pause", wk, `{"note":"` + strings.Repeat("x", 501) + `"}`, nil, 422, "validation_failed", "note"},
		// alerts and channels
		"alerts of unknown status":    {get, "/v1/alerts?status=pending", w.admin, nil, nil, 400, "invalid_parameter", "query.status[0]"},
		"alerts of unknown level":     {get, T + "/alerts?level=galaxy", wk, nil, nil, 400, "invalid_parameter", "query.level[0]"},
		"alerts of unknown severity":  {get, T + "/alerts?severity=fatal", wk, nil, nil, 400, "invalid_parameter", "query.severity[0]"},
		"alerts of unknown rule":      {get, T + "/alerts?rule=nope", wk, nil, nil, 400, "invalid_parameter", "query.rule"},
		"alerts of unknown endpoint":  {get, T + "/alerts?endpoint=nope", wk, nil, nil, 400, "invalid_parameter", "query.endpoint"},
		"unknown alert":               {get, "/v1/alerts/alr_0000000000000", wk, nil, nil, 404, "not_found", ""},
		"ack of an unknown alert":     {post, "/v1/alerts/alr_0000000000000/ack", wk, nil, nil, 404, "not_found", ""},
		"ack snoozed too long":        {post, fires + "/ack", wk, `{"snooze":"8d"}`, nil, 422, "validation_failed", "snooze"},
		"ack snoozed too short":       {post, fires + "/ack", wk, `{"snooze":"59s"}`, nil, 422, "validation_failed", "snooze"},
		"ack snoozed by a number":     {post, fires + "/ack", wk, `{"snooze":60}`, nil, 422, "validation_failed", "snooze"},
		"ack with a long note":        {post, fires + "/ack", wk, `{"note":"` + strings.Repeat("x", 1001) + `"}`, nil, 422, "validation_failed", "note"},
		"ack with a control char":     {post, fires + "/ack", wk, `{"note":"a\u0000b"}`, nil, 422, "validation_failed", "note"},
		"ack with an unknown field":   {post, fires + "/ack", wk, `{"until":"1h"}`, nil, 422, "validation_failed", "until"},
		"channel without a name":      {post, A, wk, `{"kind":"email","to":["a@example.com"]}`, nil, 422, "validation_failed", "name"},
		"channel with an empty name":  {post, A, wk, `{"name":"","kind":"email","to":["a@example.com"]}`, nil, 422, "validation_failed", "name"},
		"channel of unknown kind":     {post, A, wk, `{"name":"x","kind":"fax"}`, nil, 422, "validation_failed", "kind"},
		"channel to a blocked url":    {post, A, wk, `{"name":"x","kind":"webhook","url":"https://169.254.169.254/"}`, nil, 422, "url_blocked", "url"},
		"channel without its url":     {post, A, wk, `{"name":"x","kind":"slack"}`, nil, 422, "validation_failed", "url"},
		"channel with a file url":     {post, A, wk, `{"name":"x","kind":"slack","url":"file:///etc/passwd"}`, nil, 422, "validation_failed", "url"},
		"channel to nobody":           {post, A, wk, `{"name":"x","kind":"email"}`, nil, 422, "validation_failed", "to"},
		"channel to a bad address":    {post, A, wk, `{"name":"x","kind":"email","to":["a@example.com","b"]}`, nil, 422, "validation_failed", "to[1]"},
		"mail channel with a url":     {post, A, wk, `{"name":"x","kind":"email","to":["a@example.com"],"url":"https://example.com"}`, nil, 422, "validation_failed", "url"},
		"channel of a bad secret":     {post, A, wk, `{"name":"x","kind":"webhook","url":"https://example.com","secret":"hunter2"}`, nil, 422, "validation_failed", "secret"},
		"channel of a bad header":     {post, A, wk, `{"name":"x","kind":"webhook","url":"https://example.com","headers":{"Webhook-Id":"1"}}`, nil, 422, "validation_failed", "headers.Webhook-Id"},
		"channel of a hidden header":  {post, A, wk, `{"name":"x","kind":"webhook","url":"https://example.com","headers":{"X-A":"***"}}`, nil, 422, "validation_failed", "headers.X-A"},
		"channel of unknown level":    {post, A, wk, `{"name":"x","kind":"email","to":["a@example.com"],"levels":["tenant","galaxy"]}`, nil, 422, "validation_failed", "levels[1]"},
		"system level of a tenant":    {post, A, wk, `{"name":"x","kind":"email","to":["a@example.com"],"levels":["system"]}`, nil, 422, "validation_failed", "levels[0]"},
		"channel of unknown severity": {post, A, wk, `{"name":"x","kind":"email","to":["a@example.com"],"min_severity":"fatal"}`, nil, 422, "validation_failed", "min_severity"},
		"channel of unknown rule":     {post, A, wk, `{"name":"x","kind":"email","to":["a@example.com"],"rules":["retry_storm","nope"]}`, nil, 422, "validation_failed", "rules[1]"},
		"channel of unknown events":   {post, A, wk, `{"name":"x","kind":"webhook","url":"https://example.com","operational_events":["nope.*"]}`, nil, 422, "validation_failed", "operational_events[0]"},
		"events over a mail channel":  {post, A, wk, `{"name":"x","kind":"email","to":["a@example.com"],"operational_events":["*"]}`, nil, 422, "validation_failed", "operational_events"},
		"log channel of a tenant":     {post, A, wk, `{"name":"x","kind":"log"}`, nil, 422, "validation_failed", "kind"},
		"channel for another tenant":  {post, A, wk, `{"name":"x","kind":"email","to":["a@example.com"],"tenant":"bolt"}`, nil, 422, "validation_failed", "tenant"},
		"channel of unknown tenant":   {post, "/v1/alert-channels", w.admin, `{"name":"x","kind":"email","to":["a@example.com"],"tenant":"nope"}`, nil, 422, "validation_failed", "tenant"},
		"channel of every tenant":     {post, "/v1/tenants/-/alert-channels", w.admin, `{"name":"x","kind":"email","to":["a@example.com"]}`, nil, 400, "tenant_required", ""},
		"unknown channel":             {get, A + "/ach_0000000000000", wk, nil, nil, 404, "not_found", ""},
		"operator's channels":         {get, "/v1/alert-channels", wk, nil, nil, 403, "forbidden_scope", ""},
		"rules for a tenant":          {get, "/v1/alert-rules", wk, nil, nil, 403, "forbidden_scope", ""},
		"change of a channel's kind":  {patch, mail, wk, `{"kind":"slack"}`, nil, 422, "validation_failed", "kind"},
		"change to a bad address":     {patch, mail, wk, `{"to":[]}`, nil, 422, "validation_failed", "to"},
		"change of another kind":      {patch, mail, wk, `{"url":"https://example.com"}`, nil, 422, "validation_failed", "url"},
		"change to a hidden header":   {patch, mail, wk, `{"headers":{"X-A":"***"}}`, nil, 422, "validation_failed", "headers.X-A"},
		"change of an old channel":    {patch, mail, wk, `{"name":"x"}`, []string{"If-Match", `"9"`}, 412, "version_mismatch", ""},
		"unknown event in retry":      {post, T + "/deliveries/dlv_0000000000000/retry", wk, nil, nil, 404, "not_found", ""},
	}
	if len(cases) < 60 {
		t.Fatalf("only %d cases", len(cases))
	}
	before, changed := w.dump(), w.watch()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := w.do(tc.method, tc.path, tc.key, tc.body, tc.headers...)
			p := r.problem(t)
			if r.status != tc.status || p.Code != tc.code {
				t.Fatalf("= %d %s, want %d %s\n%s", r.status, p.Code, tc.status, tc.code, r.body)
			}
			if tc.field != "" && !slices.Contains(p.paths(), tc.field) {
				t.Errorf("errors name %q, want %q\n%s", p.paths(), tc.field, r.body)
			}
			if changed() {
				t.Error("the store changed")
			}
		})
	}
	if after := w.dump(); after != before {
		t.Errorf("the store changed:\n%s\nwas\n%s", after, before)
	}
}
