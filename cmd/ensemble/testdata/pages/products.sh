trained a
cat > predict.yaml <<'END'
version: 1
run_dir: runs/a
input: [fc]
members: {expected: 10, minimum: 5, on_missing: degrade}
END
ln -s fc/2026010300.grib2 fc.grib2
printf 'id,name,latitude,longitude,altitude\n1,Zugspitze,47.42,10.98,2964\n2,De Bilt,52.1,5.18,\n' > stations.csv
grib_copy -w count=1 fc.grib2 field.grib2
grib_set -s discipline=0,parameterCategory=3,parameterNumber=5,typeOfFirstFixedSurface=1,scaledValueOfFirstFixedSurface=0,productDefinitionTemplateNumber=0,step=0 field.grib2 orography.grib2
