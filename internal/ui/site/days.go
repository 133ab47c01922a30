package site

import (
	"net/url"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// The day of an endpoint that is always busy is more than a thousand rows until the server has
// read it once and remembers it. A page does not wait for many of those.
const (
	daysAtOnce = 5
	daysFor    = 30 * time.Millisecond
)

// Days reads what happened to endpoints in the last day, by their ids. It begins nothing new after
// some time: those that are left out are read when the page is looked at again, as its stream
// does, because what was read meanwhile is remembered by then.
func (v *Visit) Days(ids []string) (map[string]*view.Strip, error) {
	out := make(map[string]*view.Strip, len(ids))
	began := time.Now() // the clock of the kernel, not that of the pages
	for some := range slices.Chunk(ids, daysAtOnce) {
		if len(out) > 0 && time.Since(began) > daysFor {
			break
		}
		var days view.Strips
		if err := v.Get(v.API("endpoint-health"), url.Values{"endpoint": some}, &days); err != nil {
			return nil, err
		}
		for i := range days.Endpoints {
			out[days.Endpoints[i].Endpoint] = &days.Endpoints[i]
		}
	}
	return out, nil
}
