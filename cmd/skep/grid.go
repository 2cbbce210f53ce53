package main

import (
	"io"
	"strings"
	"unicode/utf8"
)

// grid is a small table for people: a header, columns as wide as needed.
type grid struct {
	rows      [][]string
	rightSide map[int]bool
}

func newGrid(header ...string) *grid {
	return &grid{rows: [][]string{header}, rightSide: map[int]bool{}}
}

// right puts columns flush right.
func (g *grid) right(columns ...int) {
	for _, c := range columns {
		g.rightSide[c] = true
	}
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

func (g *grid) write(w io.Writer) error {
	widths := make([]int, len(g.rows[0]))
	for _, r := range g.rows {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for _, r := range g.rows {
		var line strings.Builder
		for i, c := range r {
			if i > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if g.rightSide[i] {
				line.WriteString(pad + c)
			} else {
				line.WriteString(c + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
