// Package api stands for the protocols of Skep: a folder a service, with its
// protobuf file and the Go code that `make gen` makes of it, checked in. There
// is no logic below it, and its types stop at the packages named server,
// client and wire.
package api

//go:generate go run -C ../tools ./protogen ../api
