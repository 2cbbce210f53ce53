// Command wordcount is the built-in word count as a program that is shipped, for
// tests.
package main

import (
	"github.com/skepdb/skep/jobs/builtin"
	"github.com/skepdb/skep/jobs/mapreduce"
)

func main() { mapreduce.Main(builtin.WordCount()) }
