package rest

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// MetricsAccess says what /metrics serves, and to whom.
type MetricsAccess struct {
	// Handler serves the metrics; nil: they are not served here.
	Handler http.Handler
	// Open reports whether everybody who reaches this listener may read them,
	// because it is a loopback one; nil: no.
	Open func() bool
	// Token lets its bearer read them, like a key that may read everything;
	// empty: there is none.
	Token string
}

// addMetricsRoute serves /metrics. To whoever may not read it, it does not
// exist.
func (s *Server) addMetricsRoute(m MetricsAccess) {
	op := &huma.Operation{
		OperationID: "get-metrics", Method: http.MethodGet, Path: "/metrics",
		Summary: "Metrics in the Prometheus text format", Tags: []string{"server"},
		Description: "On a loopback listener for everybody, else with an admin or admin:read key or the metrics token; " +
			"404 otherwise, and when metrics have an address of their own.",
		Metadata: map[string]any{metaProblems: []int{http.StatusNotFound}},
		Responses: map[string]*huma.Response{"200": {
			Description: "Metrics", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}},
		}},
	}
	s.Plain(op, NeedNothing, func(w http.ResponseWriter, r *http.Request) {
		c := CallBy(w)
		if m.Handler == nil || !s.mayReadMetrics(&m, c, r) {
			s.Fail(w, c, errNoRoute)
			return
		}
		m.Handler.ServeHTTP(w, r)
	})
}

func (s *Server) mayReadMetrics(m *MetricsAccess, c *Call, r *http.Request) bool {
	if m.Open != nil && m.Open() && !c.client.IsValid() { // a proxy on this machine speaks for others
		return true
	}
	text, err := bearer(r.Header.Values("Authorization"))
	if err != nil {
		return false
	}
	if m.Token != "" && sameSecret(text, m.Token) {
		return true
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ReadTimeout)
	defer cancel()
	key, err := s.auth.key(ctx, r.Header, c)
	return err == nil && slices.Contains(scopesFor[NeedAdminRead], key.Scope)
}

// sameSecret compares without telling, by the time it takes, how much of a
// guess was right or how long the secret is.
func sameSecret(given, want string) bool {
	g, w := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(g[:], w[:]) == 1
}

// RequireToken lets only bearers of the token reach h; an empty token lets
// everybody. It guards metrics that have an address of their own.
func RequireToken(token string, h http.Handler) http.Handler {
	if token == "" {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text, err := bearer(r.Header.Values("Authorization")); err != nil || !sameSecret(text, token) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="breakwater"`)
			http.Error(w, http.StatusText(http.StatusUnauthorized), http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}
