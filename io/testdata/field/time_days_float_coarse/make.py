import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc')
f.add('time', ('time',), np.float32(738841 + np.arange(1, 5)/24.), 'f4', standard_name='time', units='days since 1-1-1'); f.axes()
f.add('t2m', ('time', 'lat', 'lon'), fields((4,)), 'f4', units='K'); f.close()
expect('float32 cannot hold hours of days since year 1', refusal=dict(code=65, words=['of type float is precise to']))
