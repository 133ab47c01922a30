package words

// Word is what people read for a value of the API.
type Word struct {
	API     string // the value itself, shown beside the word and used in filters
	Word    string
	Meaning string // a clause or a sentence
	Class   string // of the style sheet: ok, warn, bad, sea; empty: grey
	Icon    string // of the sprite; empty: none
}

// vocabulary has the words of one enum.
type vocabulary map[string]Word

func (v vocabulary) of(value string) Word {
	w, known := v[value]
	w.API = value
	if !known {
		if w.Word = value; value == "" {
			w.Word = None
		}
	}
	return w
}

// Names of signal classes of the style sheet.
const (
	ok   = "ok"
	warn = "warn"
	bad  = "bad"
	sea  = "sea"
	grey = ""
)

// KindOf is the word for why an attempt was made.
func KindOf(kind string) Word { return kinds.of(kind) }

var kinds = vocabulary{
	"first":  {Word: "first", Meaning: "The first attempt of this delivery."},
	"retry":  {Word: "retry", Meaning: "Another attempt after one that failed."},
	"probe":  {Word: "probe", Meaning: "One request to find out whether an endpoint that was down is back. It is never charged."},
	"replay": {Word: "replay", Meaning: "An attempt of a delivery that had ended and was replayed."},
	"manual": {Word: "manual", Meaning: "Sent by hand. It is never charged."},
}

// ClassOf is the word for what an answer means.
func ClassOf(class string) Word { return classes.of(class) }

var classes = vocabulary{
	"success":   {Word: "success", Class: ok, Icon: "success", Meaning: "The destination took the event."},
	"down":      {Word: "down", Class: bad, Icon: "down", Meaning: "The destination is down. That says nothing about this event: the lane holds what follows and probes."},
	"throttle":  {Word: "throttle", Class: warn, Icon: "throttle", Meaning: "The destination works and asks for less. The lane waits, and no attempt is charged."},
	"retry":     {Word: "retry", Class: warn, Icon: "retry", Meaning: "This request failed while the destination answers. It is retried on its own schedule, while the lane goes on with everything else."},
	"limited":   {Word: "limited", Class: bad, Icon: "limited", Meaning: "Like down, but it seldom mends itself: a few attempts for this reason, then the delivery is dead."},
	"permanent": {Word: "permanent", Class: bad, Icon: "permanent", Meaning: "The destination refused this event for good. It is not retried: the same request would get the same answer."},
	"local":     {Word: "local", Class: grey, Icon: "local", Meaning: "It failed on our side. The destination is not to blame, and no attempt is charged."},
}

// EndReasonOf is the word for why a delivery is dead or cancelled.
func EndReasonOf(reason string) Word { return endReasons.of(reason) }

var endReasons = vocabulary{
	"exhausted":        {Word: "attempts used up", Meaning: "All its attempts failed."},
	"limited":          {Word: "limit of its error reached", Meaning: "It failed as often as its policy allows for this error, which seldom mends itself."},
	"permanent":        {Word: "refused for good", Meaning: "The receiver refused the content."},
	"gone":             {Word: "endpoint gone", Meaning: "The endpoint said that it is gone."},
	"expired":          {Word: "expired", Meaning: "It was held, or would have waited for its next retry, longer than its policy allows."},
	"breaker_open":     {Word: "breaker was open", Meaning: "It was due while the breaker was open, and its policy does not hold deliveries then."},
	"user":             {Word: "cancelled by hand", Meaning: "Somebody cancelled it."},
	"endpoint_deleted": {Word: "endpoint deleted", Meaning: "Its endpoint was deleted."},
}

// StatusOf is the badge of a delivery: its view where it has one.
func StatusOf(status string, view *string) Word {
	if view != nil && status == "pending" {
		return deliveryViews.of(*view)
	}
	return deliveryStatuses.of(status)
}

var deliveryStatuses = vocabulary{
	"pending":   {Word: "Pending", Class: sea, Icon: "wait", Meaning: "It is sent when it is due and its lane lets it."},
	"delivered": {Word: "Delivered", Class: ok, Icon: "delivering", Meaning: "The destination took it."},
	"dead":      {Word: "Dead", Class: bad, Icon: "permanent", Meaning: "It was given up. It is kept and can be replayed."},
	"cancelled": {Word: "Cancelled", Class: grey, Icon: "disabled", Meaning: "It will not be sent."},
}

var deliveryViews = vocabulary{
	"held":     {Word: "Held", Class: warn, Icon: "holding", Meaning: "Its lane sends nothing now. Holding costs no attempt."},
	"retrying": {Word: "Retrying", Class: warn, Icon: "retry", Meaning: "An attempt failed, and another one will follow."},
}

// EndpointStatusOf is the word for what the operator wants of an endpoint.
func EndpointStatusOf(status string) Word { return endpointStatuses.of(status) }

var endpointStatuses = vocabulary{
	"active":   {Word: "Active", Class: ok, Icon: "delivering", Meaning: "Deliveries are sent."},
	"paused":   {Word: "Paused", Class: grey, Icon: "paused", Meaning: "Deliveries are accepted and held."},
	"disabled": {Word: "Disabled", Class: grey, Icon: "disabled", Meaning: "Deliveries are accepted and held until they expire."},
	"deleted":  {Word: "Deleted", Class: grey, Icon: "disabled", Meaning: "There is nowhere to send to."},
}

// StatusReasonOf is the word for why an endpoint is not active.
func StatusReasonOf(reason string) Word { return statusReasons.of(reason) }

var statusReasons = vocabulary{
	"manual":  {Word: "by hand", Meaning: "a person or a program with a key did it"},
	"gone":    {Word: "answered 410", Meaning: "the endpoint answered 410: it is gone"},
	"failing": {Word: "nothing but failures", Meaning: "it did nothing but fail for long"},
}

// BreakerOf is the word for a state of the breaker, and of what a replay meets.
func BreakerOf(state string) Word {
	if w, known := breakerStates[state]; known {
		w.API = state
		return w
	}
	return endpointStatuses.of(state)
}

var breakerStates = vocabulary{
	"closed":    {Word: "Delivering", Class: ok, Icon: "delivering", Meaning: "The breaker is closed: deliveries are sent."},
	"open":      {Word: "Holding", Class: bad, Icon: "holding", Meaning: "The breaker is open: deliveries are held, and only probes are sent."},
	"half_open": {Word: "Probing", Class: warn, Icon: "probing", Meaning: "One probe is on its way."},
}

// OpenReasonOf is the word for what opened a breaker.
func OpenReasonOf(reason string) Word { return openReasons.of(reason) }

var openReasons = vocabulary{
	"consecutive": {Word: "failures in a row", Meaning: "too many attempts in a row failed"},
	"ratio":       {Word: "share of failures", Meaning: "too many of the latest first attempts failed"},
}

// PacedByOf is the word for what keeps the requests of a lane apart.
func PacedByOf(by string) Word { return pacedBy.of(by) }

var pacedBy = vocabulary{
	"throttle":   {Word: "throttle", Meaning: "the endpoint refused more"},
	"ceiling":    {Word: "ceiling", Meaning: "more broke it before"},
	"recovery":   {Word: "recovery", Meaning: "it has just come back"},
	"host":       {Word: "host", Meaning: "other endpoints of its host came back with it"},
	"rate_limit": {Word: "rate limit", Meaning: "its policy says so"},
}

// WaitingForOf is the word for what keeps a delivery that is due.
func WaitingForOf(what string) Word { return waits.of(what) }

var waits = vocabulary{
	"paused": {Word: "its endpoint is paused or disabled", Icon: "paused", Meaning: "It is held until the endpoint is resumed."},
	"open":   {Word: "the breaker is open", Icon: "holding", Meaning: "It is held until a probe succeeds."},
	"hold":   {Word: "the endpoint asked for quiet", Icon: "wait", Meaning: "It waits as long as the endpoint asked for."},
	"pace":   {Word: "its lane is paced", Icon: "draining", Meaning: "Requests are kept apart; its turn comes."},
}

// DelaySourceOf is the word for what set the wait after an attempt.
func DelaySourceOf(source string) Word { return delaySources.of(source) }

var delaySources = vocabulary{
	"none":        {Word: "no wait", Meaning: "nothing but the lane sets its time"},
	"backoff":     {Word: "backoff", Meaning: "its policy's schedule, drawn at random so that retries do not come back together"},
	"retry_after": {Word: "Retry-After", Meaning: "the endpoint said how long, and a little is added so that not all come back at once"},
	"throttle":    {Word: "throttle", Meaning: "the endpoint asked for less without saying how long"},
	"confirm":     {Word: "confirmation", Meaning: "the endpoint said that it is gone, which is asked once more before it is believed"},
}

// LimitModeOf is the word for how a lane finds its limit.
func LimitModeOf(mode string) Word { return limitModes.of(mode) }

var limitModes = vocabulary{
	"adaptive": {Word: "adaptive", Meaning: "the limit follows the endpoint's latency"},
	"fixed":    {Word: "fixed", Meaning: "its policy says so"},
}

// ReplayStatusOf is the badge of a replay.
func ReplayStatusOf(status string) Word { return replayStatuses.of(status) }

var replayStatuses = vocabulary{
	"queued":    {Word: "Queued", Class: grey, Icon: "wait", Meaning: "It starts when no other replay feeds the same endpoint."},
	"running":   {Word: "Running", Class: sea, Icon: "draining", Meaning: "Deliveries are made pending again at its pace."},
	"paused":    {Word: "Paused", Class: warn, Icon: "paused", Meaning: "Nothing is fed. What was fed is delivered."},
	"done":      {Word: "Done", Class: ok, Icon: "delivering", Meaning: "Every delivery has ended or was skipped."},
	"cancelled": {Word: "Cancelled", Class: grey, Icon: "disabled", Meaning: "Nothing more is fed. What was fed is delivered."},
}

// PauseReasonOf is the word for why a replay is paused.
func PauseReasonOf(reason string) Word { return pauseReasons.of(reason) }

var pauseReasons = vocabulary{
	"user":          {Word: "by hand", Meaning: "Somebody paused it. It goes on when it is resumed."},
	"stuck":         {Word: "stuck", Meaning: "It paused itself again and again, or is refused for good, and delivered nothing in between. It waits for a person."},
	"error_rate":    {Word: "too many errors", Meaning: "Too many of the answers in the last minute were errors. It goes on by itself, at its first pace."},
	"breaker":       {Word: "breaker open", Meaning: "The breaker of its endpoint is open. It goes on by itself when that closes."},
	"endpoint_held": {Word: "endpoint held", Meaning: "Its endpoint is paused or disabled. It goes on by itself when that is resumed."},
}

// SignatureOf is the word for a scheme of signatures, BodyOf for the form of a
// body, TraceContextOf for what becomes of trace contexts, ScopeOf for what a key
// may do.
func SignatureOf(scheme string) Word { return schemes.of(scheme) }

// BodyOf is the word for the form in which an endpoint gets an event.
func BodyOf(mode string) Word { return bodies.of(mode) }

// TraceContextOf is the word for what becomes of trace contexts.
func TraceContextOf(mode string) Word { return traceContexts.of(mode) }

// ScopeOf is the word for what a key may do.
func ScopeOf(scope string) Word { return scopes.of(scope) }

var (
	schemes = vocabulary{
		"standard":         {Word: "Standard Webhooks, HMAC", Meaning: "v1, with a secret that both sides know"},
		"standard_ed25519": {Word: "Standard Webhooks, ed25519", Meaning: "v1a, checked with a public key"},
		"stripe":           {Word: "Stripe style", Meaning: "the header that Stripe made popular"},
	}
	bodies = vocabulary{
		"payload":            {Word: "as it came", Meaning: "the bytes that were published"},
		"envelope":           {Word: "envelope", Meaning: "wrapped with its type and time"},
		"cloudevents":        {Word: "CloudEvents", Meaning: "structured: one JSON object around the payload"},
		"cloudevents_binary": {Word: "CloudEvents, binary", Meaning: "the bytes that were published, described by ce- headers"},
		"slack":              {Word: "Slack", Meaning: "a message for an incoming webhook of Slack"},
		"discord":            {Word: "Discord", Meaning: "a message for a webhook of Discord"},
		"teams":              {Word: "Microsoft Teams", Meaning: "an adaptive card for a webhook of Teams"},
	}
	traceContexts = vocabulary{
		"off":     {Word: "not sent", Meaning: "the endpoint learns nothing of the publisher's trace"},
		"forward": {Word: "sent along", Meaning: "traceparent and tracestate of the publisher are sent"},
	}
	scopes = vocabulary{
		"admin":        {Word: "everything", Meaning: "reads and changes all tenants and the server"},
		"admin:read":   {Word: "read everything", Meaning: "reads all tenants and the server, changes nothing"},
		"tenant:write": {Word: "one tenant", Meaning: "reads and changes one tenant"},
		"tenant:read":  {Word: "read one tenant", Meaning: "reads one tenant, changes nothing"},
		"tenant:send":  {Word: "publish", Meaning: "publishes events of one tenant, and reads nothing"},
	}
)
