package cluster

import (
	"testing"

	"github.com/google/uuid"
)

func TestNormalHost(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"Node1", "node1"},
		{" node1.example.org. ", "node1.example.org"},
		{"NODE1.Example.ORG:8020", "node1.example.org"},
		{"10.0.0.7", "10.0.0.7"},
		{"10.0.0.7:50010", "10.0.0.7"},
		{"::ffff:10.0.0.7", "10.0.0.7"},
		{"[2001:DB8:0:0:0:0:0:1]:8020", "2001:db8::1"},
		{"[2001:db8::1]", "2001:db8::1"},
		{"2001:0db8::0001", "2001:db8::1"},
		{"fe80::1%eth0", "fe80::1"},
	} {
		if got := NormalHost(c.in); got != c.want {
			t.Errorf("NormalHost(%q) = %q, want %q", c.in, got, c.want)
		}
		if got := NormalHost(NormalHost(c.in)); got != c.want {
			t.Errorf("NormalHost twice of %q = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestNewWorkerID(t *testing.T) {
	a, b := NewWorkerID(), NewWorkerID()
	if a == b {
		t.Fatalf("two workers got the id %s", a)
	}
	if _, err := uuid.Parse(string(a)); err != nil {
		t.Fatalf("worker id %q: %v", a, err)
	}
}
