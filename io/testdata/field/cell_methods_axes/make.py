import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# Means over an area, over members and over time are different things.
f = File('fc.nc'); f.ensemble(hours=(24.,)); f.d['time'].bounds = 'time_bnds'; f.add('time_bnds', ('time', 'two'), [[0., 24.]])
x = fields((2, 1)); D = ('number', 'time', 'lat', 'lon')
f.add('tas', D, x, 'f4', units='K', cell_methods='area: mean time: point'); f.add('ta', D, x + 1, 'f4', units='K', cell_methods='area: mean where land time: mean (interval: 1 hour comment: time: sum)')
f.add('psl', D, x + 2, 'f4', units='Pa', cell_methods='time: maximum within days time: mean over days')
f.add('skt_mean', ('time', 'lat', 'lon'), x[0] + 3, 'f4', units='K', standard_name='surface_temperature', cell_methods='number: mean'); f.close()
expect('cell_methods by axis', variables={
    '2t': variable(np.float32(x), members=[1, 2], leads=['24h']), 't': variable(np.float32(x + 1), members=[1, 2], leads=['24h'], statistic='mean', interval='24h'),
    'msl': variable(np.float32(x + 2), members=[1, 2], statistic='mean of maximum', interval='24h'), 'skt': variable(np.float32(x[0] + 3), leads=['24h'])})
