import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from grib import *

m = [rain_ecmwf(k, 'od', 'enfo', lead, perturbationNumber=k + 1, numberOfForecastsInEnsemble=2) for k in range(2) for lead in (6,)]
write('fc.grib1', *m)
expect('precipitation of ECMWF in edition 1, coded like an instant: a sum from the start of the forecast',
       variables={'tp': dict(members=[1, 2], leads=['6h'], statistic='sum', interval='6h', **kilograms(*m))})
