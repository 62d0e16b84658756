//go:build long

package train_test

import "testing"

func TestLongStoreIsReadOnceByAllRanks(t *testing.T) {
	checkStoreReads(t, []int{1, 2, 4}, []int64{20, 12, 8, 4})
}

func TestLongFilesAreReadOnceByAllRanks(t *testing.T) {
	checkFileReads(t, "data:2", "lat:2", "data:4", "level:2 lon:2", "lat:4")
}
