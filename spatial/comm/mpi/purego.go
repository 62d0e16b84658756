//go:build !cgo || !linux

package mpi

import "github.com/ensemble-weather/ensemble/internal/dl"

// Probe always fails without cgo.
//
// Errors: dl.ErrNotFound.
func Probe(i Implementation) (Found, error) {
	_, err := dl.Open(i.Files...)
	return Found{}, err
}
