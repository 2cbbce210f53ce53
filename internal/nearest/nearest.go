// Package nearest finds the name a person probably meant.
package nearest

import (
	"strings"
	"unicode/utf8"
)

// Name returns the candidate with the smallest edit distance to name (case
// ignored), or "" when none is near enough to be a slip of the finger: at most
// a third of the longer name, and at least one. Among equally near ones
// the first wins.
func Name(name string, candidates []string) string {
	name = strings.ToLower(name)
	best, bestDistance := "", -1
	for _, c := range candidates {
		limit := max(1, max(utf8.RuneCountInString(name), utf8.RuneCountInString(c))/3)
		if bestDistance >= 0 {
			limit = min(limit, bestDistance-1)
		}
		if d := Distance(name, strings.ToLower(c), limit); d <= limit {
			best, bestDistance = c, d
		}
		if bestDistance == 0 {
			break
		}
	}
	return best
}

// Hint returns `did you mean "x"?` for the nearest candidate, or "".
func Hint(name string, candidates []string) string {
	if n := Name(name, candidates); n != "" {
		return `did you mean "` + n + `"?`
	}
	return ""
}

// Distance returns the number of insertions, deletions, substitutions and swaps
// of neighbours that turn a into b (optimal string alignment), or limit+1 when
// it is more than limit. It works in memory proportional to the shorter name.
func Distance(a, b string, limit int) int {
	x, y := []rune(a), []rune(b)
	if len(x) < len(y) {
		x, y = y, x
	}
	if limit < 0 || len(x)-len(y) > limit {
		return limit + 1
	}
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			d := min(row[j-1]+1, last[j]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d = min(d, before[j-2]+1)
			}
			row[j] = d
			least = min(least, d)
		}
		if least > limit {
			return limit + 1
		}
		before, last, row = last, row, before
	}
	return min(last[len(y)], limit+1)
}
