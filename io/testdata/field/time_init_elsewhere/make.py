import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# The listed initialisation has a dimension that the variable lacks.
f = File('fc.nc')
f.add('time', ('time',), [24., 48.], standard_name='time', units='hours since 2024-03-01')
f.add('reference', ('run',), [0., 12.], standard_name='forecast_reference_time', units='hours since 2024-03-01'); f.axes()
f.add('t2m', ('time', 'lat', 'lon'), fields((2,)), 'f4', units='K', coordinates='reference'); f.close()
expect('a reference time along another dimension', refusal=dict(code=65, words=['"reference" has a dimension that the variable lacks']))
