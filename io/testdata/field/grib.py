"""GRIB files for TestField: synthetic numbers. Each folder's make.py calls these helpers; run it with eccodes and numpy."""
import json, os, sys

import eccodes as E
import numpy as np

HERE = os.path.dirname(os.path.abspath(sys.argv[0]))
T2M = dict(discipline=0, parameterCategory=0, parameterNumber=0, typeOfFirstFixedSurface=103, scaleFactorOfFirstFixedSurface=0, scaledValueOfFirstFixedSurface=2)


def here(name):
    return os.path.join(HERE, name)


def field(k, base=280., ny=4, nx=6):
    """Field number k: a smooth pattern whose values all differ."""
    j, i = np.mgrid[0:ny, 0:nx]
    return base + 0.5*k + 3*np.sin(0.7*j + 0.3*k) + 2*np.cos(0.9*i - 0.2*k) + 0.01*(j*nx + i)


def message(edition, values, **keys):
    """One message on a small grid; keys are set in the order given."""
    g = E.codes_grib_new_from_samples('regular_ll_sfc_grib%d' % edition)
    ny, nx = values.shape
    grid = dict(Ni=nx, Nj=ny, latitudeOfFirstGridPointInDegrees=60., latitudeOfLastGridPointInDegrees=60. - 5*(ny - 1), longitudeOfFirstGridPointInDegrees=0.,
                longitudeOfLastGridPointInDegrees=5.*(nx - 1), iDirectionIncrementInDegrees=5., jDirectionIncrementInDegrees=5., dataDate=20240301, dataTime=0)
    for k, v in dict(grid, **keys).items():
        E.codes_set(g, k, v)
    E.codes_set_values(g, np.asarray(values, 'f8').ravel())
    b = bytearray(E.codes_get_message(g))
    E.codes_release(g)
    return b


def section(b, number):
    """Offset of a section of edition 2."""
    at = 16
    while b[at + 4] != number:
        at += int.from_bytes(b[at:at + 4], 'big')
    return at


def octets(b, at, values):
    """Sets octets, counted from 1, of the section that begins at a byte."""
    for octet, x in values.items():
        b[at + octet - 1:at + octet - 1 + len(x)] = x
    return b


def write(name, *messages):
    with open(here(name), 'wb') as f:
        for m in messages:
            f.write(m)


def span(*messages):
    """Minimum and maximum of the decoded values of messages, by ecCodes."""
    all_values = np.concatenate([E.codes_get_values(E.codes_new_from_message(bytes(m))) for m in messages])
    return dict(min=float(np.float32(all_values.min())), max=float(np.float32(all_values.max())))


def expect(situation, **more):
    with open(here('expected.json'), 'w') as f:
        json.dump(dict(situation=situation, **more), f, indent=1)
        f.write('\n')


def rain_ecmwf(k, marsClass, stream, lead, marsType='pf', **keys):
    """Precipitation of edition 1 with ECMWF's local section. ecCodes calls it an instant in every archive."""
    return message(1, 1e-3*abs(field(k, base=0.)), centre=98, indicatorOfTypeOfLevel=1, level=0, indicatorOfParameter=228, table2Version=128, setLocalDefinition=1,
                   localDefinitionNumber=1, marsClass=marsClass, marsType=marsType, marsStream=stream, P1=lead, timeRangeIndicator=0, **keys)


def kilograms(*messages):
    """span in kg m-2, of messages in m of water."""
    return {k: 1000*x for k, x in span(*messages).items()}
