import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from grib import *

pf = [message(2, field(k), productDefinitionTemplateNumber=1, typeOfEnsembleForecast=3, perturbationNumber=k, numberOfForecastsInEnsemble=3, **T2M, forecastTime=6) for k in (1, 2)]
oper = message(2, field(9), **T2M, forecastTime=6)
write('pf.grib2', *pf)
write('oper.grib2', oper)
expect('a forecast without a member number beside members', warnings=['fields have no member number beside members'], variables={'2t': dict(members=[-2147483648, 1, 2], leads=['6h'], **span(oper, *pf))})
