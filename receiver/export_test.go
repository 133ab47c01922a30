package receiver

import (
	"slices"
	"time"
)

// Statements returns all statements in their dialect, in the order of the code.
func (s *SQL) Statements() []string {
	var out []string
	for _, text := range statements {
		out = append(out, s.statements[text])
	}
	return slices.Clip(out)
}

// Backoff returns the longest wait after so many failures.
func Backoff(failures int) time.Duration { return backoff(failures, maxBackoff) }

// Jitter draws from 0 to most.
func Jitter(most time.Duration) time.Duration { return jitter(most) }
