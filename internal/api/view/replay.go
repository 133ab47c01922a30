package view

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// Replay is a replay as the API shows it.
type Replay struct {
	ID                string          `json:"id"`
	Tenant            string          `json:"tenant"`
	Filter            json.RawMessage `json:"filter" doc:"What it is about, times resolved."`
	Status            string          `json:"status" enum:"queued,running,paused,done,cancelled"`
	PauseReason       *string         `json:"pause_reason" doc:"user or stuck: waits for a person; error_rate, breaker or endpoint_held: goes on by itself."`
	PerMinute         int             `json:"per_minute" doc:"Pace at the start."`
	CurrentPerMinute  int             `json:"current_per_minute"`
	MaxMultiple       float64         `json:"max_multiple"`
	PauseErrorPercent float64         `json:"pause_error_percent"`
	AsOf              Stamp           `json:"as_of" doc:"What ended or was accepted later is not part of it."`
	Progress          Progress        `json:"progress"`
	CreatedBy         string          `json:"created_by"`
	CreatedAt         Stamp           `json:"created_at"`
	StartedAt         Stamp           `json:"started_at"`
	FinishedAt        Stamp           `json:"finished_at"`
	Version           int64           `json:"version"`
}

// Progress is how far a replay has come. In the end delivered, failed and
// skipped are the total.
type Progress struct {
	Total     *int64   `json:"total" doc:"null: too many to count beforehand."`
	Fed       int64    `json:"fed" doc:"Made pending again, or created."`
	Delivered int64    `json:"delivered"`
	Failed    int64    `json:"failed" doc:"Dead again, or cancelled."`
	Skipped   int64    `json:"skipped" doc:"Not fed: pending, delivered meanwhile, or without an endpoint."`
	Percent   *float64 `json:"percent" doc:"Ended or skipped."`
	ETA       Stamp    `json:"eta" doc:"Of a running replay, if every minute is clean."`
}

// OfReplay shows a replay at now.
func OfReplay(j *hook.ReplayJob, now time.Time) Replay {
	filter, err := json.Marshal(j.Filter)
	if err != nil {
		filter = EmptyObject // cannot happen: it holds names and times
	}
	return Replay{
		ID:                hook.ReplayPrefix.Format(j.ID),
		Tenant:            hook.TenantPrefix.Format(j.TenantID),
		Filter:            filter,
		Status:            j.State.String(),
		PauseReason:       Nullable(string(j.PauseReason)),
		PerMinute:         j.PerMinute,
		CurrentPerMinute:  j.CurrentPerMinute,
		MaxMultiple:       j.MaxMultiple,
		PauseErrorPercent: j.PauseErrorPercent,
		AsOf:              Stamp(j.CreatedAt),
		Progress:          progressOf(j, now),
		CreatedBy:         j.CreatedBy,
		CreatedAt:         Stamp(j.CreatedAt),
		StartedAt:         Stamp(j.StartedAt),
		FinishedAt:        Stamp(j.FinishedAt),
		Version:           j.Version,
	}
}

func progressOf(j *hook.ReplayJob, now time.Time) Progress {
	c := &j.Counts
	v := Progress{Fed: c.Fed, Delivered: c.Delivered, Failed: c.Failed, Skipped: c.Skipped}
	if j.Total < 0 {
		return v
	}
	percent := 100.0
	if j.Total > 0 {
		percent = min(100, math.Floor(float64(c.Delivered+c.Failed+c.Skipped)*1000/float64(j.Total))/10)
	}
	v.Total, v.Percent = &j.Total, &percent
	if left := j.Total - c.Fed - c.Skipped; j.State == hook.ReplayRunning && left > 0 {
		v.ETA = Stamp(now.Add(PaceOf(j).Estimate(left, j.CurrentPerMinute)))
	}
	return v
}

// PaceOf returns the pace of a replay.
func PaceOf(j *hook.ReplayJob) policy.Pace {
	return policy.Pace{PerMinute: j.PerMinute, Ramp: j.Ramp, MaxMultiple: j.MaxMultiple}
}

// ReplayPreview is the answer to a dry run.
type ReplayPreview struct {
	Count            int64                 `json:"count"`
	Exact            bool                  `json:"exact" doc:"false: there are at least that many."`
	Missing          int64                 `json:"missing" doc:"Of count: events that get a delivery (include_missing)."`
	EstimatedSeconds int64                 `json:"estimated_seconds" doc:"If every minute is clean."`
	PerEndpoint      []ReplayEndpointCount `json:"per_endpoint" nullable:"false"`
	Warnings         []string              `json:"warnings" nullable:"false"`

	PerMinute         int          `json:"per_minute" doc:"Pace at the start."`
	MaxMultiple       float64      `json:"max_multiple"`
	PauseErrorPercent float64      `json:"pause_error_percent"`
	Course            []ReplayStep `json:"course" nullable:"false" doc:"The pace step by step, if every minute is clean; the last of 60 goes on to the end."`
}

// ReplayStep is a stretch of a replay at one pace.
type ReplayStep struct {
	AfterSeconds int64 `json:"after_seconds" doc:"From the start."`
	PerMinute    int   `json:"per_minute"`
	Sent         int64 `json:"sent" doc:"By its end."`
}

// SetPace adds the pace of a replay.
func (p *ReplayPreview) SetPace(j *hook.ReplayJob) {
	p.PerMinute, p.MaxMultiple, p.PauseErrorPercent = j.PerMinute, j.MaxMultiple, j.PauseErrorPercent
	p.EstimatedSeconds = int64(PaceOf(j).Estimate(p.Count, j.PerMinute) / time.Second)
	p.Course = []ReplayStep{}
	for _, s := range PaceOf(j).Course(p.Count) {
		p.Course = append(p.Course, ReplayStep{int64(s.After / time.Second), s.PerMinute, s.Sent})
	}
}

// ReplayEndpointCount is what a replay would send to one endpoint.
type ReplayEndpointCount struct {
	Endpoint string `json:"endpoint"`
	Count    int64  `json:"count"`
	State    string `json:"state" enum:"closed,open,paused,disabled,deleted" doc:"Of its lane, or why nothing is sent."`
}

// Warn adds a warning.
func (p *ReplayPreview) Warn(format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
}
