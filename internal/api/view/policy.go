package view

import (
	"encoding/json"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// Policy is a resolved policy.
type Policy struct {
	Resolved json.RawMessage   `json:"resolved" doc:"Every value."`
	Origin   map[string]string `json:"origin" doc:"Which level or preset set the value at a path."`
	Hash     string            `json:"hash"`
	Ladder   []Step            `json:"ladder" nullable:"false"`
	Span     Span              `json:"span"`
	Warnings []string          `json:"warnings" nullable:"false"`
}

// PolicyPreview is a policy that is being tried.
type PolicyPreview struct {
	Policy
	Simulation *Simulation `json:"simulation,omitempty"`
}

// Step is one retry; durations count from the attempt before, cumulative
// ones from the first attempt.
type Step struct {
	Attempt        int    `json:"attempt"`
	Ceiling        string `json:"ceiling"`
	Min            string `json:"min"`
	Mean           string `json:"mean"`
	Max            string `json:"max"`
	CumulativeMean string `json:"cumulative_mean"`
	CumulativeMax  string `json:"cumulative_max"`
}

// Span is the time from the first to the last attempt.
type Span struct {
	Mean string `json:"mean"`
	P5   string `json:"p5"`
	P95  string `json:"p95"`
	Max  string `json:"max"`
}

// OfPolicy shows a resolved policy.
func OfPolicy(r *policy.Resolved) (Policy, error) {
	full, err := json.Marshal(r.Policy)
	if err != nil {
		return Policy{}, err
	}
	v := Policy{
		Resolved: full,
		Origin:   r.Origin,
		Hash:     Hash(r.Hash),
		Ladder:   OfLadder(&r.Policy),
		Span:     spanOf(&r.Policy),
		Warnings: r.Warnings,
	}
	if v.Warnings == nil {
		v.Warnings = []string{}
	}
	return v, nil
}

// OfLadder shows the retries of a policy.
func OfLadder(p *policy.Policy) []Step {
	out := []Step{}
	for _, s := range p.Ladder() {
		out = append(out, Step{
			Attempt:        s.N + 1,
			Ceiling:        quantity.FormatDuration(s.Ceiling),
			Min:            quantity.FormatDuration(s.Earliest),
			Mean:           quantity.FormatDuration(s.Mean),
			Max:            quantity.FormatDuration(s.Latest),
			CumulativeMean: quantity.FormatDuration(s.CumulativeMean),
			CumulativeMax:  quantity.FormatDuration(s.CumulativeLatest),
		})
	}
	return out
}

func spanOf(p *policy.Policy) Span {
	s := p.Span()
	return Span{
		Mean: quantity.FormatDuration(s.Mean), P5: quantity.FormatDuration(s.P5),
		P95: quantity.FormatDuration(s.P95), Max: quantity.FormatDuration(s.Latest),
	}
}

// Preset is a named, complete policy.
type Preset struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Policy      json.RawMessage `json:"policy"`
	Ladder      []Step          `json:"ladder" nullable:"false"`
}

// OfPreset shows a preset.
func OfPreset(p policy.PresetInfo) (Preset, error) {
	full, err := json.Marshal(p.Policy)
	if err != nil {
		return Preset{}, err
	}
	return Preset{Name: p.Name, Description: p.Description, Policy: full, Ladder: OfLadder(&p.Policy)}, nil
}

// NamedPolicy is a policy that was saved by name.
type NamedPolicy struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Policy      json.RawMessage `json:"policy" doc:"The policy level, as it was written."`
	Ladder      []Step          `json:"ladder" nullable:"false"`
	UsedBy      PolicyUsers     `json:"used_by"`
	CreatedAt   Stamp           `json:"created_at"`
	UpdatedAt   Stamp           `json:"updated_at"`
	Version     int64           `json:"version"`
	Warnings    []string        `json:"warnings,omitempty" doc:"Soft findings about the policy, after a write."`
}

// PolicyUsers counts who refers to a policy.
type PolicyUsers struct {
	Tenants   int64 `json:"tenants" doc:"Each with all of its endpoints that name no preset of their own."`
	Endpoints int64 `json:"endpoints" doc:"That name it themselves."`
}

// OfNamedPolicy shows a named policy; expanded is nil when it is not valid any more.
func OfNamedPolicy(p *hook.NamedPolicy, expanded *policy.Policy) NamedPolicy {
	v := NamedPolicy{
		Name: p.Name, Description: p.Description, Policy: p.Policy, Ladder: []Step{}, UsedBy: PolicyUsers{Tenants: p.Tenants, Endpoints: p.Endpoints},
		CreatedAt: Stamp(p.CreatedAt), UpdatedAt: Stamp(p.UpdatedAt), Version: p.Version,
	}
	if expanded != nil {
		v.Ladder = OfLadder(expanded)
	}
	return v
}
