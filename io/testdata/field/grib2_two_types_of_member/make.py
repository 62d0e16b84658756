import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from grib import *

m = [message(2, field(k), productDefinitionTemplateNumber=1, typeOfEnsembleForecast=kind, perturbationNumber=number, numberOfForecastsInEnsemble=5, **T2M, forecastTime=6) for k, (kind, number) in enumerate([(1, 0), (2, 1), (3, 2), (6, 3)])]
write('fc.grib2', *m)
expect('types of member other than positive perturbations have their numbers', variables={'2t': dict(members=[0, 1, 2, 3], **span(*m))})
