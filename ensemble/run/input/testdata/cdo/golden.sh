#!/bin/sh
# Makes the files of this folder: what CDO 2.1.1 makes of the first fields of real files, by
# its bilinear, first-order conservative and nearest interpolations.
#
#     golden.sh FOLDER-OF-TEST-DATA
#
# A file has the values from north to south, -999 where CDO has none, one line a row.
set -e
data=$1/formats
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -r "$tmp"' EXIT

make() { # name file columns rows west north step, then the methods
	name=$1 file=$2 nx=$3 ny=$4 west=$5 north=$6 step=$7
	shift 7
	printf 'gridtype=lonlat\nxsize=%s\nysize=%s\nxfirst=%s\nxinc=%s\nyfirst=%s\nyinc=-%s\n' "$nx" "$ny" "$west" "$step" "$north" "$step" >"$tmp/grid"
	for method; do
		cdo -s -b F64 -f nc "remap$method,$tmp/grid" -seltimestep,1 "$data/$file" "$tmp/out.nc"
		cdo -s "outputf,%.9g ,$nx" -setmisstoc,-999 "$tmp/out.nc" | head -n "$ny" >"$here/$name-$method.txt"
	done
}

make latlon grib2/ccsds_2t.grib2 36 18 0 85 10 bil con nn
make gaussian grib1/regular_gg.grib1 36 18 0 85 10 bil con nn
make octahedral grib2/octahedral_o32.grib2 36 18 0 85 10 nn
make polar grib2/polar_stereographic_5msg.grib2 31 21 -120 60 2 bil con nn
make rotated grib1/rotated_ll_24bit.grib1 17 13 -10 60 1 bil con nn
