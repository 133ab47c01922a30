package rest

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// readHops notes how many deliveries led to this request, and ends what goes
// round in circles. Deliveries may post events; that they act on the API in
// any other way, such as by asking for themselves to be sent again, can only be
// a loop.
func (c *Call) readHops(h http.Header) error {
	values := h[hook.HeaderHops]
	if len(values) == 0 {
		return nil
	}
	n, err := strconv.Atoi(values[0])
	switch {
	case len(values) > 1 || err != nil || n < 0:
		return BadParameter("header."+hook.HeaderHops, "must be one whole number")
	case c.route.Method == http.MethodGet:
		return nil
	case n >= hook.MaxHops:
		// Not a 5xx: the sender would try again.
		return NewProblem(http.StatusUnprocessableEntity, "loop_detected",
			fmt.Sprintf("this event was delivered %d times already, each time to where it was posted again", n))
	case n > 0 && c.route.need != NeedSend:
		return NewProblem(http.StatusUnprocessableEntity, "loop_detected", "deliveries may post events and nothing else")
	}
	c.Hops = n
	return nil
}
