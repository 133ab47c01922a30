package shape_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/shape"
)

var update = flag.Bool("update", false, "rewrite the golden bodies")

var modes = []hook.BodyMode{
	hook.BodyPayload, hook.BodyEnvelope, hook.BodyCloudEvents, hook.BodyCloudEventsBinary, hook.BodySlack, hook.BodyDiscord, hook.BodyTeams,
}

func event(contentType, payload string) *hook.Event {
	return &hook.Event{
		ID: 1 << 40, TenantID: 7, Type: "order.paid_now", CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 6_789_000, time.FixedZone("", 3600)),
		ContentType: contentType, Payload: []byte(payload),
	}
}

// TestBodies compares with what was looked at: body, media type and headers of each
// form.
func TestBodies(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]*hook.Event{
		"json":   event(hook.WithHops("application/json", 2), `{"order": 42,  "name":"hé","lines":[{"sku":"a","n":1},[],{ }]}`),
		"vendor": event("application/vnd.acme+json; v=1", `[true]`),
		"text":   event("text/plain", "two\nlines & <!channel> ```"),
		"bytes":  event("application/x-thing", "\x00\xff"),
	} {
		var got bytes.Buffer
		for _, m := range modes {
			fmt.Fprintf(&got, "== %s: %s\n", m, shape.Type(e, m))
			shape.Headers(e, m, func(name, value string) { fmt.Fprintf(&got, "%s: %s\n", name, value) })
			fmt.Fprintf(&got, "%q\n", shape.Body(e, m))
		}
		file := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-want +got; -update rewrites):\n%s", name, diff)
		}
	}
}

// message is what the tests read of the three kinds of messages.
type message struct {
	Text   string
	Blocks []struct {
		Type string
		Text struct {
			Type, Text string
			Verbatim   bool
		}
	}
	AllowedMentions struct{ Parse []string } `json:"allowed_mentions"`
	Embeds          []struct{ Title, Description string }
	Attachments     []struct {
		Content struct {
			Body []struct {
				Type    string
				Inlines []struct{ Type, Text string }
			}
		}
	}
}

// checkMessages checks what holds of every message, whatever an event is made of.
func checkMessages(t *testing.T, e *hook.Event) {
	t.Helper()
	read := func(m hook.BodyMode) (out message) {
		body := shape.Body(e, m)
		if err := json.Unmarshal(body, &out); err != nil || !utf8.Valid(body) {
			t.Fatalf("%s: %v in %q", m, err, body)
		}
		if !bytes.Equal(body, shape.Body(e, m)) {
			t.Errorf("%s: the next attempt sends something else", m)
		}
		if len(body) > 28<<10 {
			t.Errorf("%s: %d bytes", m, len(body))
		}
		return out
	}
	fenced := func(what, text, open, end string, room int) {
		t.Helper()
		inner, ok := strings.CutPrefix(text, open)
		inner, ok2 := strings.CutSuffix(inner, end)
		if !ok || !ok2 || strings.Contains(inner, "`") {
			t.Errorf("%s leaves its block: %q", what, text)
		}
		if n := len(utf16.Encode([]rune(text))); n > room {
			t.Errorf("%s has %d characters", what, n)
		}
	}
	s := read(hook.BodySlack)
	text := s.Blocks[1].Text
	fenced("slack", text.Text, "```", "```", 3000)
	if strings.ContainsAny(text.Text, "<>") || !text.Verbatim || s.Blocks[0].Text.Type != "plain_text" {
		t.Errorf("slack would obey %q", text.Text)
	}
	d := read(hook.BodyDiscord)
	fenced("discord", d.Embeds[0].Description, "```json\n", "\n```", 4096)
	if d.AllowedMentions.Parse == nil || len(d.AllowedMentions.Parse) > 0 {
		t.Error("discord would mention people")
	}
	for _, block := range read(hook.BodyTeams).Attachments[0].Content.Body {
		if block.Type != "RichTextBlock" || block.Inlines[0].Type != "TextRun" {
			t.Errorf("teams would obey the markup of %q", block.Inlines[0].Text)
		}
	}
}

// TestMessagesOfHostilePayloads: a publisher's text pings nobody, links nowhere and
// takes bounded room.
func TestMessagesOfHostilePayloads(t *testing.T) {
	t.Parallel()
	long := func(s string) string { return `{"a":"` + strings.Repeat(s, 300_000/len(s)) + `"}` }
	for name, payload := range map[string]string{
		"mentions":     `{"a":"@everyone <!channel> <@U1> <@&1> @here"}`,
		"links":        `{"a":"<https://evil.example|ok> [ok](https://evil.example)"}`,
		"end of block": "{\"a\":\"``` @everyone ```\"}",
		"ampersands":   long("&"),
		"angles":       long("<"),
		"quotes":       long(`\"`),
		"escapes":      long(`\u0001`),
		"pictures":     long("😀"),
		"line ends":    long("\u2028"),
		"Chinese":      long("漢"),
		"turned round": `{"a":"\u202e` + "\u202e" + `"}`,
		"very deep":    strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"very wide":    "[" + strings.Repeat("1,", 200_000) + "1]",
		"one number":   "1" + strings.Repeat("0", 400_000),
		"nothing":      "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkMessages(t, event("application/json", payload))
			checkMessages(t, event("text/html", payload))
		})
	}
}

// TestPreviewSaysThatThereIsMore: a reader can tell a part from the whole.
func TestPreviewSaysThatThereIsMore(t *testing.T) {
	t.Parallel()
	var slack message
	body := shape.Body(event("", `{"a":"`+strings.Repeat("x", 5000)+`"}`), hook.BodySlack)
	if err := json.Unmarshal(body, &slack); err != nil {
		t.Fatal(err)
	}
	if text := slack.Blocks[1].Text.Text; !strings.HasSuffix(text, "x\n…```") || len(text) < 2800 {
		t.Errorf("%d bytes, ending in %q", len(text), text[len(text)-10:])
	}
}

// FuzzBodies: every form of every event is what it promises to be.
func FuzzBodies(f *testing.F) {
	f.Add("application/json", []byte(`{"a":[1,{"b":"\"\\"}],"c":{}}`))
	f.Add("text/plain", []byte("``` <@U1>\x00\u202e"))
	f.Add("application/octet-stream", []byte{0xff, 0})
	f.Add("applicatIon/json", []byte(`no JSON, which accepting refuses`))
	f.Fuzz(func(t *testing.T, contentType string, payload []byte) {
		e := event(contentType, string(payload))
		checkMessages(t, e)
		media := shape.Type(e, hook.BodyPayload)
		if hook.IsJSON(contentType) && (!json.Valid(payload) || !utf8.Valid(payload)) || hook.IsMarked(contentType) || !utf8.ValidString(contentType) {
			return // accepting refuses it
		}
		for _, m := range []hook.BodyMode{hook.BodyEnvelope, hook.BodyCloudEvents} {
			var got struct {
				Data       json.RawMessage `json:"data"`
				DataBase64 *string         `json:"data_base64"`
				Type       string          `json:"type"`
				Kind       string          `json:"datacontenttype"`
			}
			if err := json.Unmarshal(shape.Body(e, m), &got); err != nil || got.Type != e.Type {
				t.Fatalf("%s of %q as %q: %v", m, payload, contentType, err)
			}
			if m == hook.BodyCloudEvents && got.Kind != media {
				t.Errorf("sent as %q, want %q", got.Kind, media)
			}
			if got.DataBase64 != nil {
				if plain, err := base64.StdEncoding.DecodeString(*got.DataBase64); err != nil || !bytes.Equal(plain, payload) {
					t.Errorf("%s: data is %q, %v", m, plain, err)
				}
			}
		}
	})
}
