//go:build long

package jobs

import (
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

func TestLongEveryFamilyFallsBack(t *testing.T) {
	familiesFallBack(t, dist.Bernstein(5), dist.TruncatedNormal, dist.ZeroNormal, dist.LogNormal, dist.Logistic, dist.TruncatedLogistic, dist.CensoredLogistic)
}
