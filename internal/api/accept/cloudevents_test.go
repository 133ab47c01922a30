package accept_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

var (
	asCloudEvent  = []string{"Content-Type", "application/cloudevents+json; charset=utf-8"}
	asCloudEvents = []string{"Content-Type", "application/cloudevents-batch+json"}
)

func TestCloudEventsAreHandedOver(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for name, tc := range map[string]struct {
		attributes string // besides the four that are required
		headers    []string
		want       hook.Submission
	}{
		"data as it is": {
			attributes: `,"data": {"a": 1,  "b":[]}`,
			want:       hook.Submission{Payload: []byte(`{"a": 1,  "b":[]}`), ContentType: "application/json"},
		},
		"every attribute": {
			attributes: `,"subject":"x","dataschema":"https://a/b","time":"2026-01-02T03:04:05.6+02:00","traceparent":"00-x","n":1,"flag":true,"none":null,"data":null`,
			want:       hook.Submission{Payload: []byte("null"), ContentType: "application/json"},
		},
		"no data":     {want: hook.Submission{Payload: []byte("null"), ContentType: "application/json"}},
		"a JSON kind": {attributes: `,"datacontenttype":"application/x+json","data":"a"`, want: hook.Submission{Payload: []byte(`"a"`), ContentType: "application/x+json"}},
		"text":        {attributes: `,"datacontenttype":"text/plain","data":"a\nb"`, want: hook.Submission{Payload: []byte("a\nb"), ContentType: "text/plain"}},
		"bytes":       {attributes: `,"datacontenttype":"image/png","data_base64":"AP8="`, want: hook.Submission{Payload: []byte{0, 0xff}, ContentType: "image/png"}},
		"with a key of the request": {
			attributes: `,"data":1`, headers: []string{"Idempotency-Key", "mine"},
			want: hook.Submission{Payload: []byte("1"), ContentType: "application/json", Key: "mine"},
		},
	} {
		got := s.accepted(eventsPath, `{"specversion":"1.0","id":"`+name+`","source":"/shop","type":"order.paid"`+tc.attributes+`}`, append(tc.headers, asCloudEvent...)...)
		if got.ContentHash == [32]byte{} {
			t.Errorf("%s: no content hash", name)
		}
		tc.want.Type, got.ContentHash = "order.paid", [32]byte{}
		if tc.want.Key == "" {
			tc.want.Key = got.Key // that of source and id: see below
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestSourceAndIDTellCloudEventsApart: they are the idempotency key, and no two pairs
// have the same.
func TestSourceAndIDTellCloudEventsApart(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	seen := map[string][2]string{}
	for i, pair := range [][2]string{
		{"/shop", "1"},
		{"/shop", "2"},
		{"/shop#a", "1"},
		{"/shop", "a#1"},
		{"a#b", "c"},
		{"a", "b#c"},
		{"/läden", "1"},
		{"/shop", "with space"},
		{"https://x/" + strings.Repeat("y", 300), "1"},
		{"https://x/" + strings.Repeat("y", 300), "2"},
		{"/shop", strings.Repeat("z", 2000)},
	} {
		body := fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":%q,"type":"a","data":%d}`, pair[1], pair[0], i)
		key := s.accepted(eventsPath, body, asCloudEvent...).Key
		if other, ok := seen[key]; ok || key == "" || len(key) > 255 {
			t.Errorf("%q has the key %q of %q", pair, key, other)
		}
		seen[key] = pair
	}
	if _, ok := seen["/shop#1"]; !ok {
		t.Error("a plain source and id cannot be recognised in their key")
	}
}

func TestErrorsOfCloudEventsNameTheAttribute(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	with := func(change func(m map[string]any)) string {
		m := map[string]any{"specversion": "1.0", "id": "1", "source": "/s", "type": "a", "data": 1}
		change(m)
		b, err := json.Marshal(m)
		ok(t, err)
		return string(b)
	}
	set := func(pairs ...any) string {
		return with(func(m map[string]any) {
			for i := 0; i < len(pairs); i += 2 {
				m[pairs[i].(string)] = pairs[i+1]
			}
		})
	}
	for body, want := range map[string]string{
		`{}`:                              "specversion id source type",
		`[]`:                              "body",
		set("specversion", "2"):           "specversion",
		set("specversion", 1.0):           "specversion",
		set("id", ""):                     "id",
		set("id", 1):                      "id",
		set("source", nil):                "source",
		set("type", "a b"):                "type",
		set("type", "com/x"):              "type",
		set("time", "now"):                "time",
		set("subject", ""):                "subject",
		set("dataschema", 1):              "dataschema",
		set("Extension", "x"):             "Extension",
		set("ext_a", "x"):                 "ext_a",
		set("ext", []int{1}):              "ext",
		set("datacontenttype", "no type"): "datacontenttype",
		set("datacontenttype", "text/plain; breakwater-hops=1"):                                             "datacontenttype",
		set("datacontenttype", "text/plain"):                                                                "data",
		set("data_base64", "AA=="):                                                                          "data_base64",
		with(func(m map[string]any) { delete(m, "data"); m["data_base64"] = "AA==" }):                       "datacontenttype",
		with(func(m map[string]any) { delete(m, "data"); m["data_base64"] = 1 }):                            "data_base64",
		`{"specversion":"1.0","id":"1","source":"/s","type":"a","datacontenttype":"a/b","data_base64":"!"}`: "data_base64",
		`{"specversion":"1.0","id":"1","source":"/s","type":"a","id":"2"}`:                                  "id",
		with(func(m map[string]any) {
			for i := range 200 {
				m[fmt.Sprint("x", i)] = 1
			}
		}): "body",
	} {
		r := s.post(eventsPath, body, asCloudEvent...)
		var paths []string
		for _, e := range r.problem(t).Errors {
			paths = append(paths, e.Path)
		}
		if got := strings.Join(paths, " "); r.status != 422 || got != want {
			t.Errorf("%.200s = %d about %q, want %q", body, r.status, got, want)
		}
	}
	if r := s.post(eventsPath, `{`, asCloudEvent...); r.status != 400 {
		t.Errorf("not JSON = %d", r.status)
	}
	if r := s.post(eventsPath, `[]`, asCloudEvents...); r.status != 415 {
		t.Errorf("a batch as one event = %d", r.status)
	}
	if r := s.post(batchPath, `{}`, asCloudEvent...); r.status != 415 {
		t.Errorf("one event as a batch = %d", r.status)
	}
}

func TestBatchOfCloudEvents(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	r := s.post(batchPath, `[{"specversion":"1.0","id":"1","source":"/s","type":"a","data":1},{"specversion":"1.0","source":"/s","type":"a"},
		{"specversion":"1.0","id":"2","source":"/s","type":"b"}]`, asCloudEvents...)
	var answer struct {
		Accepted int
		Results  []struct {
			Status int
			Error  problem
		}
	}
	ok(t, json.Unmarshal(r.body, &answer))
	if r.status != 202 || answer.Accepted != 2 || answer.Results[1].Status != 422 || answer.Results[1].Error.Errors[0].Path != "events[1].id" {
		t.Errorf("= %d %s", r.status, r.body)
	}
	keys := []string{s.ingest.got[0].Key, s.ingest.got[1].Key}
	if want := []string{"/s#1", "/s#2"}; !slices.Equal(keys, want) {
		t.Errorf("keys %q, want %q", keys, want)
	}
	for _, wrong := range []string{`{}`, `[]`, `1`} {
		if r := s.post(batchPath, wrong, asCloudEvents...); r.status != 422 {
			t.Errorf("%s = %d %s", wrong, r.status, r.body)
		}
	}
}

// FuzzCloudEvent: whatever is sent is answered with 202 or a 4xx, and what is accepted
// is an event as any other.
func FuzzCloudEvent(f *testing.F) {
	f.Add(`{"specversion":"1.0","id":"1","source":"/s","type":"a","data":{"x":[1,"\u0000"]},"time":"2026-01-02T03:04:05Z"}`)
	f.Add(`{"specversion":"1.0","id":"1","source":"/s","type":"a","datacontenttype":"text/plain","data_base64":"AA=="}`)
	f.Fuzz(func(t *testing.T, body string) {
		s := newServer(t)
		r := s.post(eventsPath, body, asCloudEvent...)
		if r.status == 202 {
			got := s.ingest.got[0]
			if hook.CheckType(got.Type) != nil || got.Key == "" || len(got.Key) > 255 || got.ContentType == "application/json" && !json.Valid(got.Payload) {
				t.Errorf("accepted %+v", got)
			}
		} else if r.status < 400 || r.status > 499 {
			t.Errorf("= %d %s", r.status, r.body)
		}
	})
}
