package catalog

import (
	"strings"

	"github.com/skepdb/skep/schema"
)

// PartitionName writes values as Hive names a partition: ds=2008-04-08/hr=11.
// Characters that could not be part of a file name are escaped as %3A.
func (t *Table) PartitionName(values []schema.Datum) string {
	var b strings.Builder
	for i, c := range t.PartitionColumns {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(escapePath(c.Name))
		b.WriteByte('=')
		b.WriteString(escapePath(PartitionText(values[i])))
	}
	return b.String()
}

// PartitionText is a partition value's text.
func PartitionText(v schema.Datum) string {
	if v.Null || v.Type.Kind == schema.String && v.S == "" {
		return DefaultPartition
	}
	return v.Text()
}

const hexDigits = "0123456789ABCDEF"

// escapePath escapes the characters that Hive's FileUtils.escapePathName does.
func escapePath(s string) string {
	escape := func(c byte) bool { return c < 0x20 || strings.IndexByte("\"#%'*/:=?\\\x7f{[]^", c) >= 0 }
	n := 0
	for i := range len(s) {
		if escape(s[i]) {
			n++
		}
	}
	if n == 0 {
		return s
	}
	out := make([]byte, 0, len(s)+2*n)
	for i := range len(s) {
		if c := s[i]; escape(c) {
			out = append(out, '%', hexDigits[c>>4], hexDigits[c&15])
		} else {
			out = append(out, c)
		}
	}
	return string(out)
}
