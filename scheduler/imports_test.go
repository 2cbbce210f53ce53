package scheduler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// The core may import these and nothing else.
var pure = map[string]bool{
	"cmp": true, "fmt": true, "maps": true, "slices": true, "sort": true, "strings": true,
	"time":                                  true, // durations only, see below
	"github.com/skepdb/skep/cluster":        true,
	"github.com/skepdb/skep/jobs":           true,
	"github.com/skepdb/skep/internal/fault": true,
}

// TestIsPure proves that the core has no clock, goroutine, lock, channel,
// network or disk. That it does not depend on the order of maps is for
// TestSimulationIsDeterministic to show.
func TestIsPure(t *testing.T) {
	for _, f := range impurities(t, os.DirFS(".")) {
		t.Error(f)
	}
}

// TestImpuritiesAreFound shows that the guard above can fail.
func TestImpuritiesAreFound(t *testing.T) {
	for name, src := range map[string]string{
		"imports sync": `import "sync"; var mu sync.Mutex`,
		"imports os":   `import "os"; var f *os.File`,
		"time.Now":     `import "time"; func f() { time.Now() }`,
		"time.Sleep":   `import "time"; func f() { time.Sleep(1) }`,
		"goroutine":    `func f() { go f() }`,
		"channel":      `var c chan int`,
	} {
		if len(impurities(t, fstest.MapFS{"x.go": {Data: []byte("package x; " + src)}})) == 0 {
			t.Errorf("%s: not found", name)
		}
	}
}

func impurities(t *testing.T, dir fs.FS) []string {
	files, err := fs.Glob(dir, "*.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	fset := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := fs.ReadFile(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(fset, name, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range f.Imports {
			if path, _ := strconv.Unquote(imp.Path.Value); !pure[path] {
				found = append(found, name+": imports "+path)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			at := ""
			switch n := n.(type) {
			case *ast.GoStmt:
				at = "starts a goroutine"
			case *ast.ChanType, *ast.SelectStmt:
				at = "uses channels"
			case *ast.SelectorExpr:
				if p, ok := n.X.(*ast.Ident); ok && p.Name == "time" && n.Sel.Name != "Duration" && n.Sel.Name != "Millisecond" {
					at = "uses time." + n.Sel.Name
				}
			}
			if at != "" {
				found = append(found, fset.Position(n.Pos()).String()+": "+at)
			}
			return true
		})
	}
	return found
}
