package function

import (
	_ "embed" // the examples
	"slices"
	"strings"
)

//go:embed examples.txt
var exampleText string

// Example is the documentation of a function, or of several names of one.
type Example struct {
	Names []string
	Usage string // "trim(text[, characters])"
	What  string // what it gives
	// Query is a complete statement; in its FROM, T has a column x with 1, 2, 3 and 4.
	Query string
	// Value is its one row, as the command line prints it.
	Value string
}

// Examples returns the documentation of the functions, in an order for reading.
func Examples() []Example {
	var out []Example
	for line := range strings.Lines(exampleText) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		parts := strings.SplitN(line, " ¦ ", 5)
		if len(parts) < 5 {
			continue // a test counts them
		}
		query := "SELECT " + parts[3]
		if at := strings.Index(query, " from T"); at >= 0 {
			query = query[:at] + " from (select explode(array(1, 2, 3, 4)) as x) t" + query[at+len(" from T"):]
		}
		names := strings.Fields(parts[0])
		out = append(out, Example{Names: names, Usage: parts[1], What: parts[2], Query: query, Value: parts[4]})
	}
	return out
}

// Describe returns the documentation of a name; ok is false when there is none.
func Describe(name string) (e Example, ok bool) {
	name = strings.ToLower(name)
	for _, e := range Examples() {
		if slices.Contains(e.Names, name) {
			return e, true
		}
	}
	return Example{}, false
}
