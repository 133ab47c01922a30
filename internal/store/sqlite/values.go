package sqlite

import (
	"encoding/json"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// stamp is a time as it is stored: microseconds, NULL for the zero time.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// orNull stores the zero value as NULL.
func orNull[T interface{ ~int | ~int64 | ~uint8 }](v T) any {
	if v == 0 {
		return nil
	}
	return int64(v)
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// idList is a list of numbers as one parameter, for json_each.
func idList[T hook.ID | int | hook.DeliveryState | hook.EndReason](ids []T) string {
	list := make([]int64, len(ids)) // a slice of uint8 would become base64
	for i, id := range ids {
		list[i] = int64(id)
	}
	out, _ := json.Marshal(list) // numbers always encode
	return string(out)
}
