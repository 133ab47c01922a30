package app_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// told is an operational event as the API shows it.
type told struct {
	Type, Tenant, Endpoint string
	Detail                 map[string]any
}

// told returns the operational events, oldest first.
func (s *server) told(query string) []told {
	s.t.Helper()
	var list struct{ Data []told }
	if err := json.Unmarshal([]byte(s.api(http.MethodGet, "/v1/operational-events?limit=200"+query, "")), &list); err != nil {
		s.t.Fatal(err)
	}
	slices.Reverse(list.Data)
	return list.Data
}

// awaitTold waits until an event of a type is recorded, and returns the last one.
func (s *server) awaitTold(t hook.OperationalType) (last told) {
	s.t.Helper()
	s.eventually(string(t)+" is recorded", func() bool {
		all := s.told("&type=" + string(t))
		if len(all) > 0 {
			last = all[len(all)-1]
		}
		return len(all) > 0
	})
	return last
}

// id returns the id of what an answer shows.
func (s *server) id(answer string) string {
	s.t.Helper()
	var shown struct{ ID string }
	if err := json.Unmarshal([]byte(answer), &shown); err != nil || shown.ID == "" {
		s.t.Fatalf("no id in %s: %v", answer, err)
	}
	return shown.ID
}

// TestChangesAreTold makes every change through the API and reads what was recorded:
// each once, in order, for its tenant, and without a secret.
func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	s := startServer(t, "BREAKWATER_ALERT_ENABLED=false")
	const base = "/v1/tenants/acme"
	tenant := s.id(s.api(http.MethodPost, "/v1/tenants", `{"uid":"acme","name":"Acme"}`))
	endpoint := s.id(s.api(http.MethodPost, base+"/endpoints", `{"uid":"a","url":"http://`+closedPort(t)+`/?token=hidden"}`))
	for _, step := range []string{"pause", "pause", "resume", "disable", "resume", "reset"} {
		s.api(http.MethodPost, base+"/endpoints/a/"+step, "")
	}
	s.api(http.MethodPatch, base+"/endpoints/a", `{"description":"not told"}`)
	s.api(http.MethodPost, base+"/endpoints/a/rotate-secret", "{}")
	key := s.id(s.api(http.MethodPost, "/v1/keys", `{"name":"k","scope":"tenant:read","tenant":"acme"}`))
	s.api(http.MethodDelete, "/v1/keys/"+key, "")
	s.api(http.MethodDelete, "/v1/keys/"+key, "") // changes nothing
	s.api(http.MethodDelete, base+"/endpoints/a", "")
	s.api(http.MethodDelete, base, "")
	s.awaitTold(hook.TenantDeleted)

	var got []string
	for _, e := range s.told("") {
		if e.Tenant != tenant {
			continue // of the node
		}
		detail, err := json.Marshal(e.Detail)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"hidden", "not told", "whsec_", "bw_"} {
			if strings.Contains(string(detail), secret) {
				t.Errorf("%s shows %s: %s", e.Type, secret, detail)
			}
		}
		if about := strings.HasPrefix(e.Type, "endpoint.") || strings.HasPrefix(e.Type, "breaker."); about != (e.Endpoint == endpoint) {
			t.Errorf("%s is about endpoint %q", e.Type, e.Endpoint)
		}
		if e.Type == string(hook.EndpointSecretRotated) {
			detail = []byte("{}") // has a time
		}
		got = append(got, e.Type+" "+string(detail))
	}
	want := []string{
		"tenant.created {}", "endpoint.created {}", `endpoint.paused {"from":"active"}`, `endpoint.resumed {"from":"paused"}`,
		`endpoint.disabled {"reason":"manual"}`, `endpoint.resumed {"from":"disabled"}`, "breaker.reset {}",
		`endpoint.updated {"changed":["description"]}`, "endpoint.secret_rotated {}",
		`key.created {"key":"` + key + `","scope":"tenant:read"}`, `key.revoked {"key":"` + key + `","scope":"tenant:read"}`,
		`endpoint.deleted {"cancelled":0}`, "tenant.deleted {}",
	}
	if !slices.Equal(got, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if e := s.awaitTold(hook.NodeJoined); e.Tenant != "" || !strings.HasPrefix(e.Detail["node"].(string), "node_") {
		t.Errorf("node.joined %+v", e)
	}
}

// TestReplaysAndDeadLettersAreTold: a delivery is given up, which an alert finds out,
// and is replayed.
func TestReplaysAndDeadLettersAreTold(t *testing.T) {
	t.Parallel()
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	defer sink.Close()
	s := startServer(t, "BREAKWATER_ALERT_INTERVAL=1s")
	const base = "/v1/tenants/default"
	endpoint := s.id(s.api(http.MethodPost, base+"/endpoints", `{"uid":"a","url":"`+sink.URL+`"}`))
	s.api(http.MethodPost, base+"/events", `{"type":"a","payload":1}`)
	if e := s.awaitTold(hook.DeliveryDeadLettered); e.Endpoint != endpoint || e.Detail["count"] != 1.0 || e.Detail["reason"] != "permanent" {
		t.Errorf("event %+v", e)
	}
	replay := s.id(s.api(http.MethodPost, base+"/replays", `{"endpoint":"a"}`))
	if e := s.awaitTold(hook.ReplayFinished); e.Detail["replay"] != replay || e.Endpoint != endpoint {
		t.Errorf("event %+v", e)
	}
	if n := len(s.told("&type=replay.started")); n != 1 {
		t.Errorf("its start was told %d times", n)
	}
	// One that has to wait for its endpoint can be paused, resumed and cancelled.
	s.api(http.MethodPost, base+"/endpoints/a/pause", "")
	path := base + "/replays/" + s.id(s.api(http.MethodPost, base+"/replays", `{"endpoint":"a"}`))
	for _, step := range []string{"pause", "resume", "cancel"} {
		s.api(http.MethodPost, path+"/"+step, "")
	}
	s.awaitTold(hook.ReplayPausing)
	s.awaitTold(hook.ReplayResumed)
	s.awaitTold(hook.ReplayWithdrawn)
	if e := s.awaitTold(hook.DeadLettersGrowing); e.Detail["alert"] == nil || e.Detail["threshold"] != 1.0 {
		t.Errorf("event %+v", e)
	}
}
