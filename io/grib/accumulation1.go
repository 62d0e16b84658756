package grib

import "time"

// accumulationsECMWF lists the parameters of ECMWF's table 128 that are sums over
// time in forecasts: precipitation, run-off, fluxes of energy and momentum at the
// surface and at the top of the atmosphere, sunshine. Edition 1 codes them like
// instants, with time range indicator 0 or 1.
//
// Source: parameter database of ECMWF (codes.ecmwf.int/grib/param-db), entries
// "accumulated field".
var accumulationsECMWF = map[int]bool{8: true, 9: true, 44: true, 45: true, 50: true, 57: true, 58: true, 142: true, 143: true, 144: true, 145: true, 146: true, 147: true,
	169: true, 175: true, 176: true, 177: true, 178: true, 179: true, 180: true, 181: true, 182: true, 189: true, 195: true, 196: true, 197: true, 205: true, 208: true, 209: true,
	210: true, 211: true, 212: true, 213: true, 228: true, 239: true, 240: true}

// Classes of ECMWF's local section (octet 42) whose forecasts do not count from
// their start. ERA6 is not documented yet.
//
// Source: MARS table class of ecCodes.
const (
	classERA5 = 23
	classERA6 = 40
)

// Streams of ECMWF's local section (octets 44 and 45): the deterministic forecast and
// the ensemble of data assimilations.
//
// Source: MARS table stream of ecCodes.
const (
	streamOper = 1025
	streamEnda = 1030
)

// forecastStreams names the streams whose fields are forecasts of single dates. Other
// streams are means over months, climates and waves.
//
// Source: MARS table stream of ecCodes.
var forecastStreams = map[int]string{streamOper: "oper", 1026: "scda", 1028: "dcda", streamEnda: "enda", 1032: "efho", 1033: "enfh", 1034: "efov", 1035: "enfo",
	1090: "seas", 1093: "mofc", 1120: "eefh", 1122: "eefo", 1200: "mnfc", 1201: "mnfh", 1220: "mmsf", 1247: "lwda"}

// intervalECMWF returns the interval over which a forecast field of edition 1 of
// ECMWF is accumulated, for a field that is coded like an instant at a lead above 0.
// It returns 0 if the field is no accumulation, or if its archive counts in a way
// that the header does not state; such a field stays an instant.
//
// Forecasts count from their start. ERA5 counts from the previous field of its
// post-processing: over 1 h, in the ensemble of data assimilations over 3 h.
//
// Source: ERA5 data documentation of ECMWF, section "Mean rates/fluxes and
// accumulations"; parameter database of ECMWF.
func intervalECMWF(o Octets, lead time.Duration) time.Duration {
	if o.U1(5) != centreECMWF || o.U1(4) != 128 || !accumulationsECMWF[o.U1(9)] || !o.Has(45) {
		return 0
	}
	if kind := o.U1(43); kind != 9 && kind != 10 && kind != 11 { // fc, cf, pf
		return 0
	}
	class, stream := o.U1(42), o.U2(44)
	switch {
	case forecastStreams[stream] == "" || class == classERA6:
		return 0
	case class == classERA5 && stream == streamOper:
		return time.Hour
	case class == classERA5 && stream == streamEnda:
		return 3 * time.Hour
	case class == classERA5:
		return 0
	}
	return lead
}
