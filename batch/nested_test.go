package batch_test

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// Gather, Concat and Slice of nested arrays give the values that the positions say.
func TestNestedArrays(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, text := range []string{"array<int>", "map<string,array<int>>", "struct<a:string,b:array<struct<c:int>>>", "uniontype<int,string>"} {
		typ, err := schema.ParseType(text)
		if err != nil {
			t.Fatal(err)
		}
		form := schema.NewCellForm(2, 3, 0, `\N`)
		var cells []string
		a := schema.NewAppender(typ, 10)
		for range 40 {
			cell := []string{`\N`, "1\x022", "", "1\x035\x046\x022\x03", "0\x029", "x\x02\x03y"}[r.IntN(6)]
			a.AppendNested([]byte(cell), form)
			cells = append(cells, cell)
		}
		whole := a.Finish()
		show := func(x arrow.Array, i int) string { return string(schema.AppendText(nil, typ, x, i)) }
		parts := []arrow.Array{batch.Slice(whole, 0, 7), batch.Slice(whole, 7, 7), batch.Slice(whole, 7, 29), batch.Slice(whole, 29, 40)}
		back := batch.Concat(parts)
		at := make([]int32, 100)
		for k := range at {
			at[k] = int32(r.IntN(41) - 1)
		}
		gathered, again := batch.Gather(whole, at), batch.Gather(parts[2], []int32{3, 0, 21})
		for i := range cells {
			if got, want := show(back, i), show(whole, i); got != want {
				t.Fatalf("%s: value %d of the parts is %s, want %s", text, i, got, want)
			}
		}
		for k, i := range at {
			want := "NULL"
			if i >= 0 {
				want = show(whole, int(i))
			}
			if got := show(gathered, k); got != want {
				t.Fatalf("%s: gathered %d is %s, want %s", text, i, got, want)
			}
		}
		for k, i := range []int{10, 7, 28} {
			if got, want := show(again, k), show(whole, i); got != want {
				t.Fatalf("%s: of a slice %s, want %s", text, got, want)
			}
		}
		if batch.Bytes(whole) <= 0 {
			t.Errorf("%s: takes no memory", text)
		}
	}
}
