package endpoints

import (
	"net/http"
	"net/url"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// secrets is what is seen once: after an endpoint was made, after its secret was
// rotated, and after somebody asked for it, which the audit log keeps.
type secrets struct {
	ID       string
	Address  words.Address
	Title    string
	Sentence string
	Warnings []string
	List     []secret
	Created  bool
}

type secret struct {
	Secret    string     `json:"secret"`
	Scheme    string     `json:"scheme"`
	PublicKey string     `json:"public_key"`
	CreatedAt view.Stamp `json:"created_at"`
	ExpiresAt view.Stamp `json:"expires_at"`
}

func showSecret(v *site.Visit) (site.Done, error) {
	e, err := endpointOf(v)
	if err != nil {
		return site.Done{}, err
	}
	var out struct {
		Secrets []secret `json:"secrets"`
	}
	if err := v.Get(v.API("endpoints", e.ID, "secret"), nil, &out); err != nil {
		return site.Done{}, err
	}
	return site.Done{Show: &secretPage, Content: &secrets{
		ID: e.ID, Address: words.OfURL(e.URL, 0), Title: "Secrets", List: out.Secrets,
		Sentence: "Whoever has a secret can sign in your name. That you read it is kept in the audit log.",
	}}, nil
}

// rotating is what the form about a new secret shows.
type rotating struct {
	Endpoint view.Endpoint
	Address  words.Address
	Overlaps []option
}

type option struct{ Value, Name string }

var overlaps = []option{{"0s", "none: the old secret stops at once"}, {"1h", "1 hour"}, {"24h", "24 hours"}, {"72h", "3 days"}, {"7d", "7 days"}}

func loadRotate(v *site.Visit) (any, error) {
	e, err := endpointOf(v)
	if err != nil {
		return nil, err
	}
	v.Fill(url.Values{"overlap": {"24h"}})
	return &rotating{Endpoint: e, Address: words.OfURL(e.URL, 0), Overlaps: overlaps}, nil
}

func rotate(v *site.Visit) (site.Done, error) {
	e, err := endpointOf(v)
	if err != nil {
		return site.Done{}, err
	}
	in := map[string]string{"overlap": v.Posted("overlap")}
	if own := v.Posted("secret"); own != "" {
		in["secret"] = own
	}
	var out struct {
		Secret            string     `json:"secret"`
		PublicKey         string     `json:"public_key"`
		PreviousExpiresAt view.Stamp `json:"previous_expires_at"`
	}
	if err := v.Do(http.MethodPost, v.API("endpoints", e.ID, "rotate-secret"), in, &out); err != nil {
		return site.Done{}, err
	}
	say := "Hand it to the receiver now. "
	if ends := time.Time(out.PreviousExpiresAt); ends.After(v.Now) {
		say += "The old secret signs on until " + words.Moment(ends) + "; every request carries both signatures until then."
	} else {
		say += "The old secret has stopped: until the receiver has the new one it refuses what it gets."
	}
	return site.Done{Show: &secretPage, Content: &secrets{
		ID: e.ID, Address: words.OfURL(e.URL, 0), Title: "New secret", Sentence: say,
		List: []secret{{Secret: out.Secret, PublicKey: out.PublicKey, CreatedAt: view.Stamp(v.Now)}},
	}}, nil
}

// endpointOf reads the endpoint of the page.
func endpointOf(v *site.Visit) (e view.Endpoint, err error) {
	err = v.Get(v.API("endpoints", v.ID("endpoint")), nil, &e)
	return e, err
}
