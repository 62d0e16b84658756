import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc'); f.add('time', ('time',), [0.5, 1.5], standard_name='time', units='days since 2024-03-01', bounds='time_bnds'); f.axes()
x = fields((2,)); f.add('tas', ('time', 'lat', 'lon'), x, 'f4', units='K', cell_methods='area: time: mean'); f.close()
expect('a mean whose bounds are not in the file', variables={'2t': variable(np.float32(x), statistic='mean', inits=['2024-03-01T12:00Z', '2024-03-02T12:00Z'])}, warnings=['have no bounds'])
