package cluster

import (
	"net"
	"net/netip"
	"strings"

	"github.com/google/uuid"
)

// NewWorkerID makes the id of a new worker: a random UUID.
func NewWorkerID() WorkerID { return WorkerID(uuid.NewString()) }

// NormalHost returns one spelling for the many of a host's name or address:
// lower case, no port, no brackets, no trailing dot; IPv6 in its shortest
// form, without a zone; IPv4 mapped into IPv6 as IPv4. It asks no name server:
// names that differ in more than spelling stay different.
func NormalHost(host string) string {
	host = strings.TrimSpace(host)
	if _, err := netip.ParseAddr(host); err != nil {
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().WithZone("").String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
