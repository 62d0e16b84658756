import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble(hours=(24,))
f.add('time_bnds', ('time', 'bnds'), [[0., 24.]]); f.d.variables['time'].setncattr('bounds', 'time_bnds')
x = fields((2, 1), base=5.) % 12; f.add('sunshine_duration', ('number', 'time', 'lat', 'lon'), x, 'f4', standard_name='duration_of_sunshine', units='h', cell_methods='time: sum'); f.close()
expect('sunshine of a day in hours', variables={'sund': variable(np.float32(x)*3600., members=[1, 2], unit='s', statistic='sum', interval='24h', leads=['24h'], levels=['surface'])})
