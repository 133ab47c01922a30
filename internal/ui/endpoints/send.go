package endpoints

import (
	"html/template"
	"net/http"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/chart"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// tested is what became of a test event.
type tested struct {
	Delivery view.Delivery
	Badge    words.Word
	Answer   template.HTML
	Took     string
	Say      words.Sentence
}

const (
	// testPatience is how long the form of a test waits for its answer: people
	// without scripts see it at once, and others soon.
	testPatience = 1500 * time.Millisecond
	testLook     = 100 * time.Millisecond
)

func sendTest(v *site.Visit) (site.Done, error) {
	id := v.ID("endpoint")
	var sent struct {
		Delivery *string `json:"delivery"`
	}
	if err := v.Do(http.MethodPost, v.API("endpoints", id, "test"), struct{}{}, &sent); err != nil {
		return site.Done{}, err
	}
	if sent.Delivery == nil {
		return site.Done{To: v.Frame.Link(pathOf(id)), Say: "The test event is accepted."}, nil
	}
	for waited := time.Duration(0); waited < testPatience; waited += testLook {
		var d view.Delivery
		_ = v.Get(v.API("deliveries", *sent.Delivery), nil, &d) // the page says what it knows
		if d.Status != "pending" || d.Attempts > 0 {
			break
		}
		select {
		case <-v.Request.Context().Done():
			return site.Done{}, v.Request.Context().Err()
		case <-time.After(testLook):
		}
	}
	return site.Done{To: v.Frame.Link(pathOf(id), "test", *sent.Delivery)}, nil
}

// readTest reads the test that the address of the page names. One that is gone, or
// of another endpoint, is not shown.
func readTest(v *site.Visit, e *view.Endpoint) (*tested, error) {
	id := v.Query("test")
	if id == "" {
		return nil, nil
	}
	t := &tested{Took: words.None}
	switch err := v.Get(v.API("deliveries", id), nil, &t.Delivery); {
	case isMissing(err):
		return nil, nil
	case err != nil:
		return nil, err
	case t.Delivery.Endpoint != e.ID:
		return nil, nil
	}
	t.Badge = words.StatusOf(t.Delivery.Status, t.Delivery.View)
	t.Say = words.DeliverySentence(&words.Delivery{Delivery: t.Delivery}, v.Now)
	if l := t.Delivery.Last; l != nil {
		t.Answer, t.Took = chart.Answer(classShapes[l.Class], words.Answer(l.StatusCode, l.Reason)), words.Latency(l.LatencyMS)
	}
	return t, nil
}
