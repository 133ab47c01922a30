package policy

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// Resolved is the policy that several levels give together.
type Resolved struct {
	Policy   Policy
	Hash     hook.PolicyHash
	JSON     []byte   // canonical form, what the hash is taken over and what is stored
	Warnings []string // allowed, but perhaps not meant
	// Origin says for the path of every value, such as "retry.max_attempts",
	// which level set it ("endpoint"), which preset ("preset full-5") or which
	// named policy ("policy gold").
	Origin map[string]string
}

// Resolve merges the levels, the most general first, over the preset default.
// A level that names a preset, or a named policy, replaces everything before it; its other fields
// are then merged by key. null stands for the preset's value. The error is a
// *hook.Invalid that holds everything that is wrong, of each level and of the
// result.
func Resolve(limits *Limits, levels ...Level) (*Resolved, error) {
	ps := &problems{}
	m := newMerge()
	for _, level := range levels {
		m.apply(level, ps)
	}
	m.sizeSchedule()
	p := m.values.assemble()
	p.Preset = m.preset.Name
	p.check(ps)
	m.checkLimits(limits, ps)
	if err := ps.err(); err != nil {
		return nil, err
	}
	canonical, err := p.Canonical()
	if err != nil {
		return nil, err
	}
	return &Resolved{
		Policy: p, JSON: canonical, Hash: HashOf(canonical),
		Warnings: p.Warnings(), Origin: m.origins(),
	}, nil
}

// origin is who gave a value: a level by itself, or by naming a preset or a named
// policy. The built-in default has no level.
type origin struct {
	level, preset string
	named         bool // preset is the name of a named policy
}

func (o origin) String() string {
	switch {
	case o.named:
		return "policy " + o.preset
	case o.preset != "":
		return "preset " + o.preset
	default:
		return o.level
	}
}

// merge is a policy in the making.
type merge struct {
	values settings
	from   map[string]origin
	preset PresetInfo
	base   settings // the preset's values
	owner  string   // the level that named the preset
	named  bool     // the preset is a named policy
}

func newMerge() *merge {
	m := &merge{}
	m.start(PresetInfo{Name: DefaultPreset, Policy: Default()}, "", false)
	return m
}

// start begins anew from a preset or a named policy.
func (m *merge) start(preset PresetInfo, level string, named bool) {
	m.preset, m.owner, m.named = preset, level, named
	m.base = flatten(preset.Policy)
	m.values = maps.Clone(m.base)
	m.from = map[string]origin{}
	for path := range m.values {
		m.from[path] = m.presetOrigin()
	}
}

func (m *merge) presetOrigin() origin { return origin{m.owner, m.preset.Name, m.named} }

// apply merges one level. Kinds come first, because they decide which other
// fields there are.
func (m *merge) apply(level Level, ps *problems) {
	said := parseLevel(level.JSON, level.Base.Name, ps)
	if said.preset != "" && said.preset == level.Base.Name {
		m.start(level.Base.expand(ps), level.Name, true)
	} else if preset, ok := findPreset(said.preset); ok {
		m.start(preset, level.Name, false)
	}
	for _, selector := range selectors {
		if kind, ok := said.values[selector]; ok {
			m.setKind(selector, kind, level.Name)
		}
	}
	for path, value := range said.values {
		if value == nil {
			m.reset(path)
			continue
		}
		m.values[path], m.from[path] = value, origin{level: level.Name}
	}
	said.checkKinds(m.values)
}

// expand makes a whole policy of a named one, as of a preset: nothing that lies
// below the level that refers to it has a say. Its own start is a preset. One that
// is not valid any more is a mistake of the level.
func (n Named) expand(ps *problems) PresetInfo {
	own := &problems{}
	m := newMerge()
	m.apply(Level{JSON: n.JSON}, own)
	m.sizeSchedule()
	p := m.values.assemble()
	p.check(own)
	if err := own.err(); err != nil {
		ps.add("preset", "policy "+n.Name+" is not valid: "+err.Error())
		p = Default()
	}
	p.Preset = n.Name
	return PresetInfo{Name: n.Name, Policy: p}
}

// setKind changes the kind of an object and gives it the fields of the new
// kind: the preset's when it has that kind, else the defaults of the kind.
func (m *merge) setKind(selector string, kind any, level string) {
	if kind == nil {
		kind = m.base[selector]
	}
	if m.values[selector] == kind {
		return
	}
	for i := range fields {
		f := &fields[i]
		if f.kind == "" || f.selector() != selector {
			continue
		}
		m.remove(f.path)
		if f.kind != kind {
			continue
		}
		if value, ok := m.base[f.path]; ok {
			m.values[f.path], m.from[f.path] = value, m.presetOrigin()
		} else if value, ok := kindDefaults[f.path]; ok {
			m.values[f.path], m.from[f.path] = value, origin{level: level}
		}
	}
	m.values[selector], m.from[selector] = kind, origin{level: level}
}

// reset puts back the preset's values at path and below.
func (m *merge) reset(path string) {
	for _, p := range m.values.below(path) {
		m.remove(p)
	}
	for _, p := range m.base.below(path) {
		m.values[p], m.from[p] = m.base[p], m.presetOrigin()
	}
	f := fieldByPath[path]
	if f == nil || f.kind == "" {
		return
	}
	// The field may not exist in the preset, or not with the present kind.
	switch _, inPreset := m.values[path]; {
	case m.values[f.selector()] != f.kind:
		m.remove(path)
	case !inPreset && kindDefaults[path] != nil:
		m.values[path], m.from[path] = kindDefaults[path], m.presetOrigin()
	}
}

func (m *merge) remove(path string) {
	delete(m.values, path)
	delete(m.from, path)
}

// sizeSchedule gives a schedule that a level wrote as many attempts as it has
// delays, when no level counted them itself.
func (m *merge) sizeSchedule() {
	list, ok := m.values[backoffDelays].([]time.Duration)
	if !ok || m.from[backoffDelays].preset != "" || m.from[maxAttempts].preset == "" {
		return
	}
	m.values[maxAttempts] = len(list) + 1
	m.from[maxAttempts] = m.from[backoffDelays]
}

// checkLimits holds what tenants and endpoints chose, by value or by preset,
// against the operator's limits. The operator's own choices are free.
func (m *merge) checkLimits(limits *Limits, ps *problems) {
	for path, value := range m.values {
		if level := m.from[path].level; level == "" || level == LevelServer {
			continue
		}
		if message := limits.check(path, value); message != "" {
			ps.addNew(path, message)
		}
	}
}

func (m *merge) origins() map[string]string {
	out := make(map[string]string, len(m.from))
	for path, o := range m.from {
		out[path] = o.String()
	}
	return out
}

// check finds what only the whole policy can break.
func (p *Policy) check(ps *problems) {
	p.checkRetry(ps)
	for _, c := range []struct {
		broken        bool
		path, message string
	}{
		{p.Timeout.Connect > p.Timeout.Total, "timeout.connect", "connect must not exceed total"},
		{p.Concurrency.Initial > p.Concurrency.Max, "concurrency.initial", "initial must not exceed max"},
		{p.RateLimit.PerSecond > 0 && p.RateLimit.Burst < 1, "rate_limit.burst", "burst must be at least 1"},
		{p.Breaker.Window.Failed > p.Breaker.Window.Of, "breaker.window.failed", "failed must not exceed of"},
		{p.Breaker.Probe.Max < p.Breaker.Probe.Min, "breaker.probe.max", "max must not be below min"},
	} {
		if c.broken {
			ps.addNew(c.path, c.message)
		}
	}
}

func (p *Policy) checkRetry(ps *problems) {
	r := &p.Retry
	exponential := r.Backoff.Kind == Exponential
	if exponential && r.Backoff.Cap < r.Backoff.Base {
		ps.addNew("retry.backoff.cap", "cap must not be below base")
	}
	if exponential && r.MinDelay > r.Backoff.Cap {
		ps.addNew("retry.min_delay", "must not exceed backoff.cap")
	}
	if !exponential && len(r.Backoff.Delays) == 0 {
		ps.addNew(backoffDelays, fieldByPath[backoffDelays].rule.(delays).sizeMessage())
	}
	if r.Jitter.Kind == JitterRange && r.Jitter.Low >= r.Jitter.High {
		ps.addNew("retry.jitter.low", badRange)
	}
	if r.Jitter.Kind == JitterDecorrelated && !exponential {
		ps.addNew(jitterKind, "decorrelated needs kind exponential")
	}
}

// Warnings returns what the policy allows but its author may not have meant.
func (p *Policy) Warnings() []string {
	var found []string
	if latest := p.latest(); latest > p.Retry.MaxElapsed {
		found = append(found, fmt.Sprintf("ladder may take up to %s but max_elapsed is %s",
			quantity.FormatDuration(latest), quantity.FormatDuration(p.Retry.MaxElapsed)))
	}
	if p.Retry.Jitter.Kind == JitterNone {
		found = append(found, "jitter none synchronises retries")
	}
	if class, _ := p.ClassOf(429, 0, false); class == hook.Permanent {
		found = append(found, "429 set to permanent")
	}
	return slices.Clip(found)
}
