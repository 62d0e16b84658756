import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# Nothing says whether the time or its sum with the lead is valid.
f = File('fc.nc')
f.add('time', ('time',), [0., 24.], units='hours since 2024-03-01'); f.add('step', (), 12., units='hours'); f.axes()
f.add('t2m', ('time', 'lat', 'lon'), fields((2,)), 'f4', units='K'); f.close()
expect('a scalar lead beside a time', refusal=dict(code=65, words=['"time" can be the initialisation or the valid time', 'ncatted -a standard_name,time,o,c,forecast_reference_time']))
