package segment

import "github.com/skepdb/skep/internal/fault"

// MarshalBinary encodes m for the manifest (docs/format/segment.md).
func (m *Meta) MarshalBinary() ([]byte, error) { return nil, fault.Bugf("segment: not built yet") }

// UnmarshalBinary decodes what MarshalBinary made.
func (m *Meta) UnmarshalBinary(data []byte) error { return fault.Bugf("segment: not built yet") }
