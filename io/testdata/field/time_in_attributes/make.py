import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common import *

# ncl_convert2nc states times in attributes.
f = File('fc.nc'); f.axes()
f.add('t2m', ('lat', 'lon'), field(0), 'f4', units='K', initial_time='03/01/2024 (00:00)', forecast_time=6); f.close()
expect('times in attributes only', static=True, refusal=dict(code=65, words=['attribute initial_time']))
