package main

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// generated is the table of the benchmark: a row an observation.
type generated struct {
	Rows    int
	Names   int    // distinct scientific names
	Skewed  bool   // names by Zipf's law (exponent 1.05) instead of uniform
	Seed    uint64 // same seed, same file
	Country int    // distinct countries
}

// columns are the file's columns, in order, with their HiveQL types.
var columns = [...]struct{ name, typ string }{
	{"occurrence_id", "string"}, // unique
	{"scientific_name", "string"},
	{"family", "string"}, // a function of the name
	{"country", "string"},
	{"year", "int"}, // NULL in a tenth of the rows
	{"month", "int"},
	{"latitude", "double"},
	{"longitude", "double"},
	{"individual_count", "int"}, // NULL in half of the rows
	{"basis", "string"},         // 6 values
}

// name returns the scientific name of a number: unique, and about as long as
// real ones.
func name(i int) string {
	syllables := [...]string{"ae", "bor", "cal", "den", "eri", "fol", "gla", "hel", "ili", "jun", "kal", "lin", "mon", "nar",
		"oph", "pol", "que", "ran", "sal", "tri", "ulm", "ver", "xan", "zos"}
	var genus, species strings.Builder
	for n, k := i/50, 0; k < 4; k++ {
		genus.WriteString(syllables[n%len(syllables)])
		n /= len(syllables)
	}
	for n, k := i, 0; k < 4; k++ {
		species.WriteString(syllables[n%len(syllables)])
		n /= len(syllables)
	}
	g := genus.String()
	return strings.ToUpper(g[:1]) + g[1:] + "a " + species.String() + "is L."
}

// file returns the path of the generated file in dir.
func (g generated) file(dir string) string {
	kind := "uniform"
	if g.Skewed {
		kind = "skewed"
	}
	return filepath.Join(dir, fmt.Sprintf("occurrence-%d-%d-%s-%d.tsv", g.Rows, g.Names, kind, g.Seed))
}

// write writes the file, if it isn't there yet, with a header line.
func (g generated) write(dir string) (path string, err error) {
	path = g.file(dir)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	f, err := os.Create(path + ".part")
	if err != nil {
		return "", err
	}
	defer f.Close()
	out := bufio.NewWriterSize(f, 1<<20)
	g.rows(out)
	if err := out.Flush(); err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return path, os.Rename(path+".part", path)
}

func (g generated) rows(out *bufio.Writer) {
	r := rand.New(rand.NewPCG(g.Seed, 0x5ce9))
	names, families := make([]string, g.Names), make([]string, g.Names)
	for i := range names {
		names[i] = name(i)
		families[i] = strings.ToUpper(name(i / 100)[:1]) + name(i / 100)[1:7] + "aceae"
	}
	var zipf *rand.Zipf
	if g.Skewed {
		zipf = rand.NewZipf(r, 1.05, 1, uint64(g.Names-1))
	}
	basis := [...]string{"HUMAN_OBSERVATION", "PRESERVED_SPECIMEN", "OBSERVATION", "MACHINE_OBSERVATION", "LIVING_SPECIMEN",
		"MATERIAL_SAMPLE"}
	for i, c := range columns {
		if i > 0 {
			out.WriteByte('\t')
		}
		out.WriteString(c.name)
	}
	out.WriteByte('\n')
	line := make([]byte, 0, 256)
	for i := range g.Rows {
		n := 0
		if zipf != nil {
			n = int(zipf.Uint64())
		} else {
			n = r.IntN(g.Names)
		}
		// An odd factor permutes the numbers below 2^48: unique, out of order.
		id := (uint64(i) * 0x9E3779B97F4B) & (1<<48 - 1)
		line = append(line[:0], "urn:occ:"...)
		line = appendHex12(line, id)
		line = append(append(line, '\t'), names[n]...)
		line = append(append(line, '\t'), families[n]...)
		c := r.IntN(g.Country)
		line = append(line, '\t', 'A'+byte(c/26%26), 'A'+byte(c%26))
		line = append(line, '\t')
		if r.IntN(10) > 0 {
			line = strconv.AppendInt(line, int64(1950+r.IntN(76)), 10)
		}
		line = strconv.AppendInt(append(line, '\t'), int64(1+r.IntN(12)), 10)
		line = appendCoordinate(append(line, '\t'), r.Float64()*180-90)
		line = appendCoordinate(append(line, '\t'), r.Float64()*360-180)
		line = append(line, '\t')
		if r.IntN(2) > 0 {
			line = strconv.AppendInt(line, int64(1+r.IntN(500)), 10)
		}
		line = append(append(line, '\t'), basis[min(r.IntN(12), len(basis)-1)]...)
		line = append(line, '\n')
		out.Write(line) // bufio keeps its first error for Flush
	}
}

func appendHex12(dst []byte, v uint64) []byte {
	const digits = "0123456789abcdef"
	for shift := 44; shift >= 0; shift -= 4 {
		dst = append(dst, digits[v>>shift&15])
	}
	return dst
}

// appendCoordinate writes five decimals, as coordinates have.
func appendCoordinate(dst []byte, f float64) []byte {
	return strconv.AppendFloat(dst, math.Round(f*1e5)/1e5, 'f', 5, 64)
}
