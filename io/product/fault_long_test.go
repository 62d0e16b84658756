//go:build long

package product_test

import "testing"

func TestLongFault21FileByFile(t *testing.T) { replaceFileByFile(t, 1) }

func TestLongFault24(t *testing.T) { failPower(t, 600) }
