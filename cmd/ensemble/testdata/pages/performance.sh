trained a
ln -s fc/2026010300.grib2 forecast.grib2
