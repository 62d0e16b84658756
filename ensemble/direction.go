package ensemble

import (
	"regexp"
	"strings"
)

// angleUnits are units of angles, in lower case, without marks between words. Longitudes and latitudes
// have units of their own.
var angleUnits = map[string]bool{"degree": true, "degrees": true, "deg": true, "°": true, "degreetrue": true, "degreestrue": true, "degtrue": true, "degreet": true, "degreest": true, "degt": true,
	"radian": true, "radians": true, "rad": true}

var (
	unitMarks = regexp.MustCompile(`[\s_.()-]+`)
	// directionName matches short names, CF standard names and long names of directions. Codes of GRIB2
	// are those of directions of wind, waves, swell, currents and ice drift.
	//
	// Source: CF standard name table 79; ECMWF and NCEP parameter tables; WMO FM 92 GRIB2 code table 4.2.
	directionName = regexp.MustCompile(`(?i)direction|^(\d*(m_)?wdir\d*m?|wd\d*m?|winddir\w*|wind_dir\w*|dd|ddd|mwd|mwd[123]|dwi|dwww|dwps|mdts|mdww|dirpw|dirsw|wvdir|swdir|swdir_\d|shww_dir|p1ww_dir)$|^param(0\.2\.0|10\.0\.(4|7|10|12|14)|10\.1\.0|10\.2\.2)$`)
	// notCircular matches angles that end, such as those of the sun above the horizon.
	notCircular = regexp.MustCompile(`(?i)zenith|elevation|altitude|slope|tilt|latitude|longitude|incidence|inclination|declination|^[sv]za\d*$|^lats?$|^lons?$`)
)

// IsDirection reports whether a quantity is a direction: an angle whose values 0 and 360 degrees are the
// same. Means, spreads, interpolation and scores on a line are wrong for it.
func (e Entry) IsDirection() bool {
	if notCircular.MatchString(e.Variable) || notCircular.MatchString(e.LongName) {
		return false
	}
	unit := unitMarks.ReplaceAllString(strings.ToLower(e.NativeUnit), "")
	named := directionName.MatchString(e.Variable) || directionName.MatchString(e.LongName)
	return angleUnits[unit] || named && (unit == "" || unit == "1" || unit == "unknown")
}
