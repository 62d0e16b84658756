// Package coldfile reads files from the disk, not from the page cache: what a measurement of
// a disk needs.
package coldfile
