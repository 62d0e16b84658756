import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.ensemble(hours=[6.0, 12.0]); f.d['time'].bounds = 'time_bnds'
f.add('time_bnds', ('time', 'two'), [[0., 6.], [6., 12.]])
x = fields((2, 2), 0.); f.add('tp', ('number', 'time', 'lat', 'lon'), x, 'f4', units='kg m-2', cell_methods='time: sum'); f.close()
expect('the time is the end of the interval', variables={'tp': variable(np.float32(x), members=[1, 2], inits=['2024-03-01T00:00Z'], leads=['6h', '12h'], statistic='sum', interval='6h')})
