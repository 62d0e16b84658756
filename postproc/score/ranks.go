package score

// RankHistogram counts the place of the reference among the members.
//
// Counts [M+1] are numbers of cases; a reference that equals k members shares
// its case evenly among the k+1 places it may take. Shares [M+1] are the same
// with area weights, adding up to 1. A calibrated ensemble has equal shares;
// a U shape is too little spread, a slope a bias.
// Source: Hamill 2001, doi:10.1175/1520-0493(2001)129<0550:IORHFV>2.0.CO;2.
type RankHistogram struct {
	System   string    `json:"system"`
	Variable string    `json:"variable"`
	Level    string    `json:"level"`
	Lead     string    `json:"lead"`
	Members  int       `json:"members"`
	N        int       `json:"n"`
	Counts   []float64 `json:"counts"`
	Shares   []float64 `json:"shares"`
}

// addRank adds one case of the given weight to both histograms.
func addRank(counts, shares []float64, members []float64, y, w float64) {
	below, equal := 0, 0
	for _, x := range members {
		if x < y {
			below++
		} else if x == y {
			equal++
		}
	}
	part := 1 / float64(equal+1)
	for k := below; k <= below+equal; k++ {
		counts[k] += part
		shares[k] += part * w
	}
}
