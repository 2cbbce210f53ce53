// Package occurrence has the example data: 1,534 species-occurrence records
// with the 46 columns of their download that are not empty. README.md in this
// folder has origin and licence (CC BY 4.0).
package occurrence

import (
	_ "embed" // the file below
	"strings"
)

//go:embed occurrence.tsv
var tsv string

// Key is the column that identifies a record.
const Key = "gbifID"

// Rows is the number of records.
const Rows = 1534

// TSV returns the file: UTF-8, one header line, fields separated by tabs,
// nothing quoted, lines ended by "\n", an empty field for no value.
func TSV() string { return tsv }

// Header returns the column names, as the file spells them.
func Header() []string {
	line, _, _ := strings.Cut(tsv, "\n")
	return strings.Split(line, "\t")
}
