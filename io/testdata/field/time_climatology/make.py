import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc')
f.add('time', ('time',), [15.], standard_name='time', units='days since 2024-01-01', climatology='clim'); f.add('clim', ('time', 'two'), [[0., 30.]]); f.axes()
f.add('t2m', ('time', 'lat', 'lon'), fields((1,)), 'f4', units='K'); f.close()
expect('times of a climatology', refusal=dict(code=65, words=['climatology']))
