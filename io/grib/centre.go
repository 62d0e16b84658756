package grib

import "strconv"

// centres are the abbreviations of originating centres, as ecCodes has them: of those
// that take part in TIGGE and S2S, and of others that make ensembles.
//
// Source: WMO common code table C-11 (C-1 for edition 1, with the same numbers).
var centres = map[int]string{1: "ammc", 4: "rums", 7: "kwbc", 28: "vabb", 29: "dems", 34: "rjtd", 38: "babj", 40: "rksl", 46: "sbsj", 54: "cwao", 58: "fnmo",
	69: "nzkl", 74: "egrr", 78: "edzw", 80: "cnmc", 82: "eswi", 84: "lfpw", 85: "lfpw", 86: "efkl", 88: "enmi", 94: "ekmi", centreECMWF: "ecmf", 173: "nasa", 214: "lemm",
	215: "lssw", 218: "habp", 224: "lowm", 233: "eidb", 245: "knmi", 250: "cosmo"}

// CentreName is the abbreviation of a centre, its number where it has none.
func CentreName(code int) string {
	if name, ok := centres[code]; ok {
		return name
	}
	return strconv.Itoa(code)
}
