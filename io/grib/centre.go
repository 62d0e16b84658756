package grib

import "strconv"

// centres holds the abbreviations of originating centres, in the spelling of
// ecCodes: all centres of TIGGE and S2S, and other producers of ensembles.
//
// Source: WMO common code table C-11. Edition 1 uses table C-1, which has the same
// numbers.
var centres = map[int]string{1: "ammc", 4: "rums", 7: "kwbc", 28: "vabb", 29: "dems", 34: "rjtd", 38: "babj", 40: "rksl", 46: "sbsj", 54: "cwao", 58: "fnmo",
	69: "nzkl", 74: "egrr", 78: "edzw", 80: "cnmc", 82: "eswi", 84: "lfpw", 85: "lfpw", 86: "efkl", 88: "enmi", 94: "ekmi", centreECMWF: "ecmf", 173: "nasa", 214: "lemm",
	215: "lssw", 218: "habp", 224: "lowm", 233: "eidb", 245: "knmi", 250: "cosmo"}

// CentreName returns the abbreviation of an originating centre, such as "ecmf" for
// 98. A centre without an abbreviation is returned as its number.
func CentreName(code int) string {
	if name, ok := centres[code]; ok {
		return name
	}
	return strconv.Itoa(code)
}
