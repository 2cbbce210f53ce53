// Package layers proves, by its test, that the packages of the module import
// each other downwards only. The test's table names every package, what of
// ours it may import, and the reasons of the bans that matter most.
package layers
