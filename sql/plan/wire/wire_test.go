package wire_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/google/go-cmp/cmp"
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/internal/coding/codingtest"
	"github.com/skepdb/skep/schema"
	planwire "github.com/skepdb/skep/sql/plan/wire"
	storagewire "github.com/skepdb/skep/storage/wire"
)

// in and out stand for the specs of formats, which node makes known.
type in struct{ Path string }

func (in) Format() string         { return "in" }
func (in) Fields() []schema.Field { return nil }
func (in) Describe() string       { return "" }

type out struct{ Path string }

func (out) Format() string   { return "out" }
func (out) Describe() string { return "" }

func registry() *coding.Registry {
	r := coding.NewRegistry()
	storagewire.Register(r)
	planwire.Register(r)
	r.Add("in", in{})
	r.Add("out", out{})
	return r
}

// Every field of every kind comes through: one that is added and not coded fails here.
func TestNothingIsLost(t *testing.T) {
	f := codingtest.NewFiller(11, registry())
	codingtest.Maker(f, func(r *rand.Rand) decimal128.Num { return decimal128.New(r.Int64(), r.Uint64()) })
	codingtest.All(t, f, 30, cmp.Comparer(func(a, b decimal128.Num) bool { return a == b }))
}

// Every kind that package plan declares is registered.
func TestEveryKindIsKnown(t *testing.T) {
	fset := token.NewFileSet()
	paths, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, path := range paths {
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != "isExpr" && f.Name.Name != "WithChildren" && f.Name.Name != "Kind" {
				continue
			}
			if star, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
				kinds["plan."+star.X.(*ast.Ident).Name] = true
			}
		}
	}
	if len(kinds) < 20 {
		t.Fatalf("found only %d kinds in the source: the test doesn't see them", len(kinds))
	}
	known := registry().Types()
	for k := range kinds {
		if known[k] == nil {
			t.Errorf("%s is not registered in Register", k)
		}
	}
}
