package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
)

// Decode reads a payload for filters. Whole numbers stay exact.
func Decode(payload []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, errors.New("the payload cannot be read")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the payload is more than one value")
	}
	return numbers(v), nil
}

// numbers replaces texts of numbers by numbers, in place.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.Atoi(string(v)); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return nil // beyond all numbers
		}
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}
