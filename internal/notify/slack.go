package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// colours of the bar beside a message, by tag.
var colours = map[string]string{
	"page":     "#c0392b", // red
	"warning":  "#e67e22", // orange
	"info":     "#2980b9", // blue
	"test":     "#2980b9",
	"resolved": "#27ae60", // green
}

// slackMessage is what incoming webhooks of Slack take, and those of Mattermost
// and Discord (/slack) with them.
type slackMessage struct {
	Text        string            `json:"text"`
	Attachments []slackAttachment `json:"attachments"`
}

type slackAttachment struct {
	Fallback string       `json:"fallback"`
	Color    string       `json:"color"`
	Fields   []slackField `json:"fields"`
}

type slackField struct {
	Title string `json:"title"`
	Value string `json:"value"`
	Short bool   `json:"short"`
}

func (s *Sender) postSlack(ctx context.Context, n *Notice, c *content) error {
	body, err := json.Marshal(slackOf(c))
	if err != nil {
		return permanent(fmt.Errorf("encode: %w", err))
	}
	return s.post(ctx, n, http.Header{"Content-Type": {"application/json"}}, body)
}

func slackOf(c *content) slackMessage {
	title := slackText(c.title())
	a := slackAttachment{Fallback: title, Color: colours[c.tag], Fields: []slackField{}}
	for _, f := range c.facts {
		a.Fields = append(a.Fields, slackField{f.Name, slackText(f.Value), f.Short})
	}
	for _, f := range c.linked() {
		a.Fields = append(a.Fields, slackField{Title: f.Name, Value: slackEscape.Replace(f.Value)})
	}
	return slackMessage{Text: title, Attachments: []slackAttachment{a}}
}

// slackEscape are the characters that mean something to Slack: a name must not
// become a link, or call everybody (<!channel>).
var slackEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slackText also keeps @channel and @everyone from being calls, which Mattermost
// and Discord take without brackets, and [text](address) from being a link: a space
// of no width follows.
func slackText(s string) string { return slackApart.Replace(slackEscape.Replace(s)) }

var slackApart = strings.NewReplacer("@", "@\u200b", "](", "]\u200b(")
