package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
)

// maxDecimals is more than a person or a program makes sense of: a millionth of a
// millisecond, or of a share.
const maxDecimals = 6

// theirs are members that hold what users wrote, which is shown as they wrote it.
var theirs = map[string]bool{"payload": true, "example": true, "schema": true, "policy": true, "metadata": true}

// checkNumbers refuses numbers that show how they were computed, such as
// 0.30000000000000004.
func checkNumbers(body []byte) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil //nolint:nilerr // no JSON, which is found elsewhere
	}
	return walkNumbers(value, "")
}

func walkNumbers(node any, at string) error {
	var wrong error
	switch n := node.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(n)) {
			if !theirs[name] {
				wrong = errors.Join(wrong, walkNumbers(n[name], at+"/"+name))
			}
		}
	case []any:
		for i, child := range n {
			wrong = errors.Join(wrong, walkNumbers(child, fmt.Sprintf("%s/%d", at, i)))
		}
	case json.Number:
		if !short(n) {
			return fmt.Errorf("number %s at %s has more than %d decimals", n, at, maxDecimals)
		}
	}
	return wrong
}

// short reports whether a number has few decimals, however it is written: 1e-7 has seven.
func short(n json.Number) bool {
	value, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return false
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(maxDecimals), nil)
	return value.Mul(value, new(big.Rat).SetInt(scale)).IsInt()
}

// checkStream checks the numbers of what was streamed, event by event.
func checkStream(body []byte) error {
	var wrong error
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			wrong = errors.Join(wrong, checkNumbers(data))
		}
	}
	return wrong
}
