//go:build !(linux && amd64)

package torture_test

import (
	"errors"
	"os/exec"
	"time"
)

const recordingImpossible = "writes are recorded with ptrace, on Linux and amd64 only"

const shimVariable = "TORTURE_BECOME"

func becomeTraced(string) {}

type recorder struct{}

func newRecorder() *recorder { return &recorder{} }

func (*recorder) stamp() int64 { return 0 }

func (*recorder) recorded() ([]op, error) { return nil, errors.New(recordingImpossible) }

func (*recorder) start(*exec.Cmd, string, chan<- struct{}) error {
	return errors.New(recordingImpossible)
}

func (*recorder) freeze(time.Duration) error { return nil }
