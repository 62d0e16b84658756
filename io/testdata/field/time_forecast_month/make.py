import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# Seasonal forecasts: forecastMonth counts from 1, and is no time without a statistic.
f = File('fc.nc')
f.add('forecast_reference_time', ('forecast_reference_time',), [0.], standard_name='forecast_reference_time', units='days since 2024-03-01'); f.add('forecastMonth', ('forecastMonth',), [1, 2], 'i4', units='1'); f.axes()
f.add('t2m', ('forecast_reference_time', 'forecastMonth', 'lat', 'lon'), fields((1, 2)), 'f4', units='K'); f.close()
expect('leads as numbers of months', refusal=dict(code=65, words=['leads "forecastMonth"', 'ncatted -a cell_methods,t2m,c,c,"time: mean" FILE']))
