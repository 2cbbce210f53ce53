package storage

import (
	"bytes"
	"fmt"
)

// Whole is the range of all keys.
func Whole() KeyRange { return KeyRange{} }

// CheckTiling returns an error that names the first gap or overlap unless parts,
// in order of their keys, cover whole exactly once.
func CheckTiling(whole KeyRange, parts []KeyRange) error {
	if len(parts) == 0 {
		return fmt.Errorf("no region covers %s", whole)
	}
	if !bytes.Equal(parts[0].Start, whole.Start) {
		return fmt.Errorf("the first region begins at %s, not at %s", keyText(parts[0].Start, "the lowest key"), keyText(whole.Start, "the lowest key"))
	}
	for i, p := range parts {
		if p.Empty() {
			return fmt.Errorf("region %s is empty", p)
		}
		if i == 0 {
			continue
		}
		end := parts[i-1].End
		switch c := bytes.Compare(p.Start, end); {
		case len(end) == 0 || c < 0:
			return fmt.Errorf("regions %s and %s overlap", parts[i-1], p)
		case c > 0:
			return fmt.Errorf("no region covers %s", KeyRange{end, p.Start})
		}
	}
	if end := parts[len(parts)-1].End; !bytes.Equal(end, whole.End) {
		return fmt.Errorf("the last region ends at %s, not at %s", keyText(end, "the highest key"), keyText(whole.End, "the highest key"))
	}
	return nil
}

// String returns the range in hexadecimal, for messages.
func (r KeyRange) String() string {
	return "[" + keyText(r.Start, "lowest") + ", " + keyText(r.End, "highest") + ")"
}

func keyText(k Key, empty string) string {
	if len(k) == 0 {
		return empty
	}
	return fmt.Sprintf("%x", []byte(k))
}
