import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

f = File('fc.nc')
f.add('time', (), 0., standard_name='forecast_reference_time', units='hours since 2024-03-01'); f.add('valid_time', (), 6., standard_name='time', units='hours since 2024-03-01'); f.axes()
f.add('t2m', ('step', 'lat', 'lon'), fields((2,)), 'f4', units='K'); f.close()
expect('a dimension of leads without coordinate', refusal=dict(code=65, words=['"step" has no coordinate']))
