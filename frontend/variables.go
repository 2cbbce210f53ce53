// Package frontend has sessions: who asks, in which database, with which
// variables. A session cuts a script into statements and runs each as an
// operation, whose rows are read by a cursor. Every door (the shell, later REST
// and the wire protocols) is thin over it.
package frontend

import (
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/skepdb/skep/internal/fault"
)

// Variables are what ${...} stands for: Hive's name spaces hivevar (the
// default), hiveconf, system and env.
type Variables struct {
	HiveVar  map[string]string
	HiveConf map[string]string
	// other are system: and metaconf: variables, with their name space.
	other map[string]string
}

// maxDepth bounds variables that name variables, as Hive does.
const maxDepth = 40

// Substitute replaces ${hivevar:x}, ${x}, ${hiveconf:x} and ${env:x} in text. A
// variable that isn't set stays as it is written, as in Hive.
func (v Variables) Substitute(text string) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	for range maxDepth {
		next, changed := v.once(text)
		if !changed {
			return text, nil
		}
		text = next
	}
	return "", &fault.Error{Class: fault.User, SQLState: fault.StateSyntax,
		Message: "variables name each other without end (more than 40 deep)"}
}

func (v Variables) once(text string) (string, bool) {
	var out strings.Builder
	changed := false
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			break
		}
		j := strings.IndexByte(text[i:], '}')
		if j < 0 {
			break
		}
		out.WriteString(text[:i])
		name := text[i+2 : i+j]
		if inner := strings.LastIndex(name, "${"); inner >= 0 { // ${a${b}}: the inner one first
			out.WriteString(text[i : i+2+inner])
			text = text[i+2+inner:]
			continue
		}
		if value, ok := v.lookup(name); ok {
			out.WriteString(value)
			changed = true
		} else {
			out.WriteString(text[i : i+j+1])
		}
		text = text[i+j+1:]
	}
	out.WriteString(text)
	return out.String(), changed
}

func (v Variables) lookup(name string) (string, bool) {
	space, key, found := strings.Cut(name, ":")
	if !found || !slices.Contains(spaces, space) {
		space, key = "hivevar", name
	}
	switch space {
	case "hivevar":
		value, ok := v.HiveVar[key]
		return value, ok
	case "hiveconf":
		value, ok := v.HiveConf[key]
		return value, ok
	case "env":
		return os.LookupEnv(key)
	case "system", "metaconf":
		if value, ok := v.other[name]; ok {
			return value, true
		}
		if value, ok := v.HiveConf[name]; ok { // --hiveconf system:x=y
			return value, true
		}
		if space == "system" {
			return systemProperty(key)
		}
	}
	return "", false
}

// systemProperty is what a Java system property of the name would say here.
func systemProperty(key string) (string, bool) {
	switch key {
	case "user.name":
		if u, err := user.Current(); err == nil {
			return u.Username, true
		}
	case "user.dir":
		if dir, err := os.Getwd(); err == nil {
			return dir, true
		}
	case "user.home":
		if dir, err := os.UserHomeDir(); err == nil {
			return dir, true
		}
	case "java.io.tmpdir":
		return os.TempDir(), true
	case "file.separator":
		return string(os.PathSeparator), true
	case "line.separator":
		return "\n", true
	}
	return "", false
}
