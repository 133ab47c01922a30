package config

import "strings"

// Nearest returns the candidate that name was most likely meant to be, or an
// empty string when none is close: a slip of the keyboard, or a name with a
// word too many or too few at either end.
func Nearest(name string, candidates []string) string {
	best, bestDistance := "", max(1, len(name)/3)+1
	for _, c := range candidates {
		if max(len(name)-len(c), len(c)-len(name)) >= bestDistance {
			continue // so far apart by their lengths alone
		}
		if d := distance(name, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	if best != "" {
		return best
	}
	for _, c := range candidates {
		if (extends(name, c) || extends(c, name)) && len(c) > len(best) {
			best = c
		}
	}
	return best
}

// extends reports whether long is short with whole words before or after it.
func extends(long, short string) bool {
	const separators = "._-"
	if before, ok := strings.CutSuffix(long, short); ok && before != "" {
		return strings.ContainsRune(separators, rune(before[len(before)-1]))
	}
	after, ok := strings.CutPrefix(long, short)
	return ok && after != "" && strings.ContainsRune(separators, rune(after[0]))
}

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours that turn a into b (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(row[j-1]+1, last[j]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
