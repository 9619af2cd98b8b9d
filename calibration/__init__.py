"""Calibration: samples of measured times and a cost model give parameters that know their own error.

:func:`calibration.fit.fit` fits one cost model to one table of samples; :mod:`calibration.models` finds the cost
models; :mod:`calibration.run` does it for all that the samples can tell and makes a hardware profile of it.
"""
