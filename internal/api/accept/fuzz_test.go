package accept_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
)

// FuzzEventBody posts any bytes as an event and as the payload of one: nothing
// may panic, what is no JSON must be called that, and what is accepted must be
// kept byte for byte.
func FuzzEventBody(f *testing.F) {
	for _, seed := range []string{
		`{"type":"a","payload":1}`, `{"type":"a","payload":{"x":[1,{"y":"]}"}]},"delay":"1s"}`, `{"events":[{"type":"a","payload":1}]}`,
		`{"type":"a","payload_base64":"AAAA","content_type":"text/plain"}`, `{"type":"a\u0062","payload":"\ud800"}`, `[`, `{"type"`, "\"\xff\"",
		`{"type":"a","payload":1,"endpoints":["x","y"]}`, `{}`, ` null `, `"\\"`, `{"a":{"b":"\\\""}}`, `-0.0e-1`,
	} {
		f.Add([]byte(seed))
	}
	s := newServer(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		s.t = t
		for _, path := range []string{eventsPath, batchPath} {
			r := s.post(path, string(data))
			if r.status >= 500 || !json.Valid(data) != bytes.Contains(r.body, []byte(`"code":"invalid_json"`)) {
				t.Fatalf("%s = %d %s", path, r.status, r.body)
			}
		}
		s.ingest.got = nil
		value := bytes.Trim(data, " \t\r\n")
		body := append(append([]byte("{\"payload\":\n "), data...), ` , "type":"a"}`...)
		if !json.Valid(data) {
			return
		}
		r := s.post(eventsPath, string(body))
		if r.status == http.StatusRequestEntityTooLarge || r.status == http.StatusBadRequest {
			return // too large, or too deep with one level more
		}
		if r.status != http.StatusAccepted || len(s.ingest.got) != 1 || !bytes.Equal(s.ingest.got[0].Payload, value) {
			t.Fatalf("%q: %d %s, kept %v", data, r.status, r.body, s.ingest.got)
		}
	})
}
