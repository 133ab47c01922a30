package hook

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

// Redacted hides what embeds it, a key for instance, wherever values get printed.
type Redacted struct{}

const redacted = "[redacted]"

// String hides the value.
func (Redacted) String() string { return redacted }

// Format hides the value from every verb: fmt would print the fields of a
// Stringer for those that do not make sense for text, such as %d.
func (Redacted) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalJSON hides the value.
func (Redacted) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) }

// LogValue hides the value from slog.
func (Redacted) LogValue() slog.Value { return slog.StringValue(redacted) }
