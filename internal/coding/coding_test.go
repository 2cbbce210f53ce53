package coding_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/internal/coding/codingtest"
)

type shape interface{ area() float64 }

type square struct{ Side float64 }

type group struct {
	Parts []shape
	Names map[string]*int32
	Raw   []byte
	At    time.Time
	Zone  *time.Location
	Next  *group
	Any   any
	Two   [2]bool
	Small uint8
}

func (square) area() float64 { return 0 }
func (*group) area() float64 { return 0 }

func registry() *coding.Registry {
	r := coding.NewRegistry()
	r.Add("square", square{})
	r.Add("group", &group{})
	return r
}

func TestRoundTrip(t *testing.T) {
	codingtest.All(t, codingtest.NewFiller(7, registry()), 200)
}

// The form is that of the package comment.
func TestForm(t *testing.T) {
	r := registry()
	for _, c := range []struct {
		v    any
		want string
	}{
		{int8(-1), "\x01"}, {uint16(300), "\xac\x02"}, {true, "\x01"}, {"ab", "\x02ab"},
		{[]int32(nil), "\x00"}, {[]int32{}, "\x01"}, {[]int32{1, -1}, "\x03\x02\x01"},
		{[]byte("xy"), "\x03xy"}, {map[string]bool{"b": true, "a": false}, "\x03\x01a\x00\x01b\x01"},
		{struct{ A, B uint8 }{3, 4}, "\x03\x04"}, {(*int8)(nil), "\x00"}, {new(int8), "\x01\x00"},
		{struct{ S shape }{square{}}, "\x06square" + strings.Repeat("\x00", 8)},
		{struct{ S shape }{nil}, "\x00"},
	} {
		if got, err := r.Marshal(c.v); err != nil || string(got) != c.want {
			t.Errorf("%#v is coded as %q, %v; want %q", c.v, got, err, c.want)
		}
	}
}

func TestNilAndEmptyDiffer(t *testing.T) {
	r := registry()
	for _, g := range []group{{}, {Parts: []shape{}, Raw: []byte{}, Names: map[string]*int32{"x": nil}}} {
		g.At = time.Unix(0, 0).UTC()
		data, err := r.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		back, err := coding.Decode[group](r, data)
		if diff := cmp.Diff(g, back, codingtest.Equal()); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
}

func TestRefused(t *testing.T) {
	r := registry()
	cycle := &group{}
	cycle.Next = cycle
	for name, v := range map[string]any{
		"unregistered": struct{ S shape }{(*hidden)(nil)}, "unexported": hidden{1}, "function": func() {}, "cycle": cycle,
	} {
		if _, err := r.MarshalInterface(v); err == nil {
			t.Errorf("%s: coded", name)
		}
	}
	r.Add("hidden", hidden{})
	if err := r.Check(); err == nil || !strings.Contains(err.Error(), "unexported field n") {
		t.Errorf("Check: %v", err)
	}
}

type hidden struct{ n int }

func (*hidden) area() float64 { return 0 }

func TestFingerprint(t *testing.T) {
	a, b := coding.NewRegistry(), coding.NewRegistry()
	a.Add("x", struct{ A, B int }{})
	b.Add("x", struct{ A, C int }{})
	again := registry().Fingerprint()
	if registry().Fingerprint() != again || a.Fingerprint() == b.Fingerprint() {
		t.Error("fingerprints don't tell shapes apart")
	}
}

func TestLocations(t *testing.T) {
	r := registry()
	for _, l := range []*time.Location{nil, time.UTC, time.FixedZone("X", 3600)} {
		data, err := r.Marshal(group{Zone: l})
		if err != nil {
			t.Fatal(err)
		}
		back, err := coding.Decode[group](r, data)
		if err != nil || (l == nil) != (back.Zone == nil) || l != nil && l.String() != back.Zone.String() {
			t.Errorf("%v came back as %v, %v", l, back.Zone, err)
		}
	}
}

// Few bytes never become much memory.
func TestLongLengths(t *testing.T) {
	r := registry()
	huge := "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
	if _, err := coding.Decode[[]string](r, []byte(huge)); !errors.Is(err, coding.ErrMalformed) {
		t.Error(err)
	}
	if _, err := coding.Decode[string](r, []byte(huge)); !errors.Is(err, coding.ErrMalformed) {
		t.Error(err)
	}
	if v, err := coding.Decode[float64](r, []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x7f}); err != nil || !math.IsNaN(v) {
		t.Error(v, err)
	}
}

func FuzzDecode(f *testing.F) {
	r := registry()
	seed, err := r.MarshalInterface(&group{Parts: []shape{square{2}}, Raw: []byte("x"), Any: square{1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := coding.DecodeInterface[any](r, data)
		if err != nil || v == nil {
			return
		}
		if _, err := r.MarshalInterface(v); err != nil {
			t.Errorf("decoded, but not coded: %v", err)
		}
	})
}
