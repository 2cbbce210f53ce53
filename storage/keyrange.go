package storage

import "bytes"

// Contains reports whether k lies in r.
func (r KeyRange) Contains(k Key) bool {
	return bytes.Compare(k, r.Start) >= 0 && (len(r.End) == 0 || bytes.Compare(k, r.End) < 0)
}

// Empty reports whether no key can lie in r.
func (r KeyRange) Empty() bool {
	return len(r.End) > 0 && bytes.Compare(r.Start, r.End) >= 0
}

// Intersect returns the keys that lie in both; ok is false when there are none.
func (r KeyRange) Intersect(o KeyRange) (out KeyRange, ok bool) {
	out = r
	if bytes.Compare(o.Start, out.Start) > 0 {
		out.Start = o.Start
	}
	if len(out.End) == 0 || (len(o.End) > 0 && bytes.Compare(o.End, out.End) < 0) {
		out.End = o.End
	}
	return out, !out.Empty()
}

// Covers reports whether all of o lies in r.
func (r KeyRange) Covers(o KeyRange) bool {
	if bytes.Compare(o.Start, r.Start) < 0 {
		return false
	}
	return len(r.End) == 0 || (len(o.End) > 0 && bytes.Compare(o.End, r.End) <= 0)
}
