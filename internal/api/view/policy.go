package view

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

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

// PolicyFields embeds a policy in another answer.
type PolicyFields Policy

// PolicyPreview is a policy that an endpoint might have.
type PolicyPreview struct {
	PolicyFields
	Changes []PolicyChange `json:"changes" nullable:"false" doc:"What would be other than now, by path."`
}

// PolicyChange is a value that would change.
type PolicyChange struct {
	Path string          `json:"path" doc:"Such as retry.max_attempts."`
	From json.RawMessage `json:"from" doc:"null: there is no such value."`
	To   json.RawMessage `json:"to"`
}

// OfPolicyPreview shows a policy and how it differs from the one before.
func OfPolicyPreview(before, after *policy.Resolved) (PolicyPreview, error) {
	v, err := OfPolicy(after)
	if err != nil {
		return PolicyPreview{}, err
	}
	old, err := json.Marshal(before.Policy)
	if err != nil {
		return PolicyPreview{}, err
	}
	changes := []PolicyChange{}
	eachChange("", old, v.Resolved, func(c PolicyChange) { changes = append(changes, c) })
	return PolicyPreview{PolicyFields: PolicyFields(v), Changes: changes}, nil
}

// eachChange compares two documents value by value, in the order of paths. A list is
// one value.
func eachChange(path string, from, to json.RawMessage, tell func(PolicyChange)) {
	var a, b map[string]json.RawMessage
	isObject := json.Unmarshal(from, &a) == nil && json.Unmarshal(to, &b) == nil && a != nil && b != nil
	if !isObject {
		if !bytes.Equal(from, to) {
			tell(PolicyChange{Path: path, From: orNull(from), To: orNull(to)})
		}
		return
	}
	names := slices.Collect(maps.Keys(a))
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		below := name
		if path != "" {
			below = path + "." + name
		}
		eachChange(below, a[name], b[name], tell)
	}
}

func orNull(v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return json.RawMessage("null")
	}
	return v
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
